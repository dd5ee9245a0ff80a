"""Problems are counted without torch's compiler, unless something asks for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

ROOT = Path(__file__).parents[3]
LINES = """
import sys
import torch
from kernelwright.evaluator.referee.reference.dynamo_stub import without_compiler
from kernelwright.evaluator.referee.reference.flop_counter import count_problem_work
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
FORKS = """
import json, os, signal, traceback
for line in sys.stdin:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        sys.stdout = sys.stderr = os.fdopen(writing, "w")
        signal.alarm(300)
        failed = True
        try:
            exec(json.loads(line), globals())
            failed = False
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(failed)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    _, ended = os.waitpid(child, 0)
    print(json.dumps([ended, text.strip()]), flush=True)
"""
"""Each program in a process of its own, which has imported torch and done nothing with it."""

Say = Callable[[str], str]


@pytest.fixture(scope="module")
def said() -> Iterator[Say]:
    """What a program prints that ends well."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", LINES + FORKS],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forking:
        asking, answering = forking.stdin, forking.stdout
        assert asking is not None and answering is not None

        def say(program: str) -> str:
            asking.write(json.dumps(program) + "\n")
            asking.flush()
            ended, text = json.loads(answering.readline())
            assert ended == 0, text
            return cast(str, text)

        yield say
        asking.close()


def test_weighing_brings_no_compiler(said):
    counted = "work = count_problem_work('p', SOURCE.replace('{more}', ''), {}, dtype='as_is')\n"
    assert said(counted + "print(work.complete, work.flops, *(name in sys.modules for name in HEAVY))") == (
        "True 1024 False False False"
    )


def test_working_out_what_must_be_read_brings_no_compiler(said):
    """Autograd asks it about the shapes of gradients."""
    lines = """
from kernelwright.evaluator.referee.checks.roofline import certain_bytes
from kernelwright.evaluator.referee.reference.reference import Arguments
arguments = Arguments(
    {"k": "list", "v": [{"k": "tensor", "i": 0}]}, {"k": "dict", "v": []}, [torch.randn(64, 64)]
)
model = torch.nn.Softmax(dim=-1)
print(certain_bytes(model, arguments), *(name in sys.modules for name in HEAVY))
"""
    assert said(lines) == f"{2 * 4 * 64 * 64} False False False"


def test_saying_where_an_answer_is_wrong_brings_no_compiler(said):
    """Its own way from a flat position to an index checks types with it."""
    lines = """
from kernelwright.evaluator.referee.correctness.comparison import _describe
exact = torch.zeros(3, 4, 5, dtype=torch.float64)
wrong = torch.zeros(3, 4, 5, dtype=torch.bool)
wrong[1, 2, 3] = wrong[2, 0, 4] = True
print(_describe('', exact, exact.float(), wrong).first_indices, *(name in sys.modules for name in HEAVY))
"""
    assert said(lines) == "((1, 2, 3), (2, 0, 4)) False False False"


@pytest.mark.parametrize("name", ["has_hint", "has_guarding_hint", "size_hint", "guarding_hint_or_throw"])
def test_what_only_some_versions_of_torch_ask_about_numbers_is_answered(said, name):
    lines = f"""
with without_compiler():
    from torch.fx.experimental.symbolic_shapes import {name}
    answer = int({name}(1))
print(answer, *(name in sys.modules for name in HEAVY))
"""
    assert said(lines) == "1 False False False"


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
def test_whoever_asks_for_the_compiler_gets_the_real_one(said, asking):
    assert said(f"with without_compiler():\n    {asking}\nimport torch._dynamo, sympy\nprint(sympy.__file__)")


def test_sizes_that_are_symbols_are_left_to_the_compiler(said):
    """Those of ragged dimensions are."""
    lines = """
with without_compiler():
    from torch.fx.experimental.symbolic_shapes import is_nested_int
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    print(is_nested_int(3), is_nested_int(ragged.shape[1]))
"""
    assert said(lines) == "False True"
