"""Verification: the status of each wrong output, and what is put in place of outputs before a call."""

from __future__ import annotations

import pytest
import torch

from kernelwright.evaluator.ipc import contestant_messages as wire
from kernelwright.evaluator.referee.correctness.verification import poison
from kernelwright.evaluator.schema.evaluation import Stage, Status
from tests.evaluator.referee.in_process import UNTIMED, Opener, ThreadContestant, opened
from tests.evaluator.referee.test_evaluate_candidate import PROBLEM, RIGHT, _verification, _with_body

__all__ = ["opened"]

WHOLE = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
]


@pytest.mark.parametrize("dtype", [*WHOLE, torch.bool])
def test_no_poison_of_a_whole_number_is_the_right_one(dtype: torch.dtype) -> None:
    exact = torch.tensor([0, 1, 1, 0, 127]).to(dtype)
    place = exact.clone()
    poison(place, exact)
    assert not (place == exact).any()


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
)
def test_the_poison_of_a_floating_output_is_nan(dtype: torch.dtype) -> None:
    place = torch.ones(4, dtype=dtype)
    poison(place, torch.ones(4, dtype=dtype))
    assert place.isnan().all()


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("return torch.relu(x * 1.01 * self.weight)", Status.WRONG_VALUES, "scattered"),
        ("return torch.zeros_like(x)", Status.WRONG_VALUES, "the output is all zeros"),
        ("return torch.relu(x * self.weight).T.contiguous().T[:, :1]", Status.WRONG_SHAPE, "shape"),
        ("return [torch.relu(x * self.weight)]", Status.WRONG_SHAPE, "nests differently"),
        ("self.kept = getattr(self, 'kept', torch.relu(x * self.weight))\n        return self.kept",
         Status.WRONG_VALUES, "inputs (the problem's own with"),
        ("return torch.relu(x * self.weight).double()", Status.WRONG_DTYPE, "float64"),
        ("return torch.relu(x.mul_(self.weight))", Status.INPUT_MUTATED, "input 0 was changed by the call"),
        ("raise MemoryError('no')", Status.OUT_OF_MEMORY, "MemoryError"),
        ("raise KeyError('no')", Status.RUNTIME_ERROR, "KeyError"),
        ("if x.abs().max() > 20: raise KeyError('no')\n        return torch.relu(x * self.weight)",
         Status.RUNTIME_ERROR, "inputs (the problem's own"),
    ],
)  # fmt: skip
def test_each_failure_has_its_status(opened: Opener, body: str, status: Status, said: str) -> None:
    outcome = opened(PROBLEM, UNTIMED).evaluate(_with_body(body))
    assert (outcome.status, outcome.stage) == (status, Stage.VERIFY)
    assert said in outcome.detail


def test_one_answer_in_memory_that_is_used_again_is_right_alone_and_wrong_in_a_row(opened: Opener) -> None:
    body = "self.out = getattr(self, 'out', torch.empty(64, 64))\n        "
    body += "return torch.mul(x, self.weight, out=self.out).relu_()"
    outcome = opened(PROBLEM, UNTIMED).evaluate(_with_body(body))
    assert outcome.status is Status.WRONG_VALUES
    assert "in a row: right alone, changed or left out there" in outcome.detail


def test_an_answer_wrong_now_and_then_is_not_deterministic(opened: Opener) -> None:
    body = "self.n = getattr(self, 'n', 0) + 1\n        return torch.relu(x * self.weight) + (self.n == 4)"
    outcome = opened(PROBLEM, UNTIMED).evaluate(_with_body(body))
    assert outcome.status is Status.NONDETERMINISTIC
    assert "right on some repeats, wrong on others" in outcome.detail


@pytest.mark.parametrize(
    ("weight", "wrong_calls"), [("nn.Parameter(torch.randn(64))", 1), ("2.0", 1), ("2.0", 2)]
)
def test_an_answer_wrong_at_first_and_right_when_constructed_alike_is_not_deterministic(
    opened: Opener, weight: str, wrong_calls: int
) -> None:
    problem = PROBLEM.replace("nn.Parameter(torch.randn(64))", weight)
    body = f"CALLS.append(0)\n        return torch.relu(x * self.weight) + (len(CALLS) <= {wrong_calls})"
    source = problem.replace("class Model(", "CALLS = []\nclass ModelNew(").replace(
        "return torch.relu(x * self.weight)", body
    )
    outcome = opened(problem, UNTIMED).evaluate(source)
    assert outcome.status is Status.NONDETERMINISTIC
    assert "right on some repeats, wrong on others" in outcome.detail
    mismatch = _verification(outcome).mismatch
    assert mismatch is not None and mismatch.wrong == mismatch.total


class _WritesNothing(ThreadContestant):
    """Says that outputs were collected, from its second call on."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self._collections = 0

    def _collect(self, request: wire.Collect) -> wire.Collected:
        self._collections += 1
        return wire.Collected(kind="", complaint="") if self._collections > 1 else super()._collect(request)


def test_an_output_that_was_not_written_holds_poison_and_no_earlier_answer(opened: Opener) -> None:
    outcome = opened(PROBLEM, UNTIMED).evaluate(RIGHT, _WritesNothing)
    assert outcome.status is Status.WRONG_VALUES
    assert "every element is NaN, computed or left unwritten" in outcome.detail
