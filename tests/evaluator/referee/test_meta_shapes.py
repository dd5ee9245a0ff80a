"""A problem's sizes are told without running it, whatever it does when it is run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.evaluator import EvaluationConfig, Evaluator, ProblemSignature, problem_from_source

SOURCE = """
import torch
from torch import nn
ROWS = 1 << 40
SHAPES = {{"tiny": {{"ROWS": 8}}}}
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
    def forward(self, x, y):
        {body}
def get_inputs():
    return [torch.randn(ROWS, 64), torch.randint(0, 9, (64,))]
def get_init_inputs():
    return [64]
"""


@pytest.fixture(scope="module")
def evaluator(shared_cache: Path) -> Iterator[Evaluator]:
    with Evaluator(cache=shared_cache) as judge:
        yield judge


def describe(evaluator: Evaluator, body: str, shapes: str | None = None) -> ProblemSignature:
    problem = problem_from_source(SOURCE.format(body=body), "level1/huge")
    return evaluator.signature(problem, EvaluationConfig(shapes=shapes))


def test_sizes_that_fit_no_machine_are_told(evaluator: Evaluator) -> None:
    found = describe(evaluator, "return (x * self.scale) @ x.new_zeros(64, 2)")
    assert [str(one) for one in found.inputs] == [f"x: float32[{1 << 40}, 64]", "y: int64[64]"]
    assert [str(one) for one in found.outputs] == [f"float32[{1 << 40}, 2]"]
    assert [str(one) for one in found.parameters] == ["scale: float32[64]"]
    assert found.flops == 2 * (1 << 40) * 64 * 2
    assert found.bytes_moved == 4 * ((1 << 40) * 66 + 64)
    assert describe(evaluator, "return (x * self.scale) @ x.new_zeros(64, 2)") == found


def test_what_a_model_hides_is_left_out_and_the_next_problem_goes_on(evaluator: Evaluator) -> None:
    hidden = describe(evaluator, "return x * float(x.sum())", "tiny")
    assert (str(hidden.inputs[0]), hidden.outputs, hidden.flops) == ("x: float32[8, 64]", (), None)
    assert describe(evaluator, "import os; os.abort()", "tiny").inputs == ()
    assert [str(one) for one in describe(evaluator, "return x, y", "tiny").outputs] == [
        "float32[8, 64]",
        "int64[64]",
    ]
