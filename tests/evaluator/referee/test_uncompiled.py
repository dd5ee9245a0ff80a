"""Problems are weighed without torch's compiler, unless something asks for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINES = """
import sys
import torch
from evaluator.referee.uncompiled import uncompiled
from evaluator.referee.work import weigh
HEAVY = ("torch._dynamo", "sympy", "torch.fx.experimental.symbolic_shapes")
SOURCE = '''
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.product = nn.Linear(8, 16)
    def forward(self, x):
        return torch.softmax(2.0 * self.product(x) + x.mean(), dim=-1){more}
def get_inputs():
    return [torch.randn(4, 8)]
def get_init_inputs():
    return []
'''
"""


def _said(lines: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LINES + lines],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_weighing_brings_no_compiler():
    weighed = "work = weigh('p', SOURCE.replace('{more}', ''), {}, dtype='as_is')\n"
    assert _said(weighed + "print(work.complete, work.flops, *(name in sys.modules for name in HEAVY))") == (
        "True 1024 False False False"
    )


@pytest.mark.parametrize(
    "asking",
    [
        "from torch._dynamo import config\n    assert config.recompile_limit",
        "import torch._dynamo.config as config\n    assert config.recompile_limit",
        "assert torch.compile(lambda x: x, backend='eager')(3) == 3",
        "import sympy\n    assert sympy.Integer(3) + 4 == 7",
        "from torch.fx.experimental.symbolic_shapes import ShapeEnv\n    assert ShapeEnv()",
    ],
)
def test_whoever_asks_for_the_compiler_gets_the_real_one(asking):
    assert _said(f"with uncompiled():\n    {asking}\nimport torch._dynamo, sympy\nprint(sympy.__file__)")


def test_sizes_that_are_symbols_are_left_to_the_compiler():
    """Those of ragged dimensions are."""
    lines = """
with uncompiled():
    from torch.fx.experimental.symbolic_shapes import is_nested_int
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    print(is_nested_int(3), is_nested_int(ragged.shape[1]))
"""
    assert _said(lines) == "False True"
