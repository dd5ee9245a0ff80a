"""What calls leave in their inputs and in the model's state is part of the answer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kernelwright.evaluator.contestant.calls import collect_state
from kernelwright.evaluator.referee.reference.effects import Effects, find_effects
from kernelwright.evaluator.schema.evaluation import Status, Verification
from tests.evaluator.referee.in_process import QUICK, UNTIMED, Opener, opened
from tests.evaluator.referee.references import reference_of

__all__ = ["opened"]

IN_PLACE = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, weight, gradient, moment, steps):
        steps.add_(1)
        moment.mul_(0.9).add_(gradient)
        weight.sub_(moment / steps)
def get_inputs():
    return [*torch.randn(3, 64, 64).unbind(), torch.randint(1, 9, (1,))]
"""
STATEFUL = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64))
        self.register_buffer("average", torch.zeros(64))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
    def forward(self, x):
        self.average.lerp_(x.mean(0), 0.1)
        self.calls.add_(1)
        return torch.relu(x * self.weight)
def get_inputs():
    return [torch.randn(64, 64)]
"""


def _new(problem: str, *changes: tuple[str, str]) -> str:
    source = problem.replace("class Model(", "class ModelNew(")
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    return source


def test_effects_are_found_by_calling() -> None:
    assert reference_of(IN_PLACE).effects == Effects(inputs=(0, 2, 3))
    assert reference_of(STATEFUL).effects == Effects(state=("average", "calls"))
    hidden = STATEFUL.replace("self.average.lerp_(x.mean(0), 0.1)", "self.weight.data.mul_(0.5)")
    assert reference_of(hidden).effects.state == ("weight", "calls")


def test_a_mask_made_in_the_first_call_is_no_effect() -> None:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", None)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mask = torch.ones(3) if self.mask is None else self.mask
            return x * self.mask

    assert find_effects(Lazy(), [torch.ones(3)], lambda leaves: Lazy()(*leaves)) == Effects()


def test_changed_inputs_and_state_stand_behind_the_outputs_with_scales_of_their_own(opened: Opener) -> None:
    pool = opened(STATEFUL, UNTIMED).problem.pool
    trial, before = pool.bases[0], pool.draws[0].given["average"]
    output = trial.expected.output
    assert (output.returned, len(output.leaves), output.numbers) == (1, 3, [False] * 3)
    assert torch.allclose(output.leaves[1], torch.lerp(before, trial.arguments.leaves[0].mean(0), 0.1))
    assert int(output.leaves[2]) == 1
    assert [leaf.scale is None for leaf in trial.expected.leaves] == [False, False, True]


@pytest.mark.parametrize("problem", [IN_PLACE, STATEFUL], ids=["inputs", "state"])
def test_a_candidate_that_leaves_the_same_behind_passes_and_is_timed(opened: Opener, problem: str) -> None:
    outcome = opened(problem, QUICK).evaluate(_new(problem))
    assert (outcome.status, outcome.detail) == (Status.PASSED, "")
    found = outcome.records[Verification]
    assert isinstance(found, Verification)
    assert found.effects == (
        ("input 0", "input 2", "input 3") if problem is IN_PLACE else ("average", "calls")
    )


@pytest.mark.parametrize(
    ("problem", "change", "status", "said"),
    [
        (IN_PLACE, ("moment.mul_", "moment = moment.mul"), Status.WRONG_VALUES, "input 2 after the call"),
        (IN_PLACE, ("steps.add_(1)", "steps = steps + 1"), Status.WRONG_VALUES, "input 3 after the call"),
        (
            IN_PLACE,
            ("steps.add_(1)", "steps.add_(1); gradient.add_(1).sub_(1)"),
            Status.INPUT_MUTATED,
            "input 1",
        ),
        (
            STATEFUL,
            ("self.average.lerp_", "self.average.lerp"),
            Status.WRONG_VALUES,
            "average after the call",
        ),
        (STATEFUL, ("x.mean(0)", "x[:8].mean(0)"), Status.WRONG_VALUES, "average after the call"),
        (STATEFUL, ("self.calls.add_(1)", "pass"), Status.WRONG_VALUES, "calls after the call"),
        (STATEFUL, ("average", "kept"), Status.WRONG_VALUES, "buffer average"),
        (STATEFUL, ("x * ", "x.add_(1) * "), Status.INPUT_MUTATED, "input 0"),
    ],
)
def test_what_is_left_otherwise_is_wrong(
    opened: Opener, problem: str, change: tuple[str, str], status: Status, said: str
) -> None:
    outcome = opened(problem, UNTIMED).evaluate(_new(problem, change))
    assert outcome.status is status
    assert said in outcome.detail


@pytest.mark.parametrize(
    ("problem", "share", "said"),
    [(IN_PLACE, "0.9", "input 0 after the call"), (STATEFUL, "0.1", "average after the call")],
    ids=["inputs", "state"],
)
def test_what_timed_calls_leave_is_compared_with_the_baselines(
    opened: Opener, problem: str, share: str, said: str
) -> None:
    late = _new(problem, (share, f"{share} if COUNT.append(0) or len(COUNT) < 40 else 0.2"))
    outcome = opened(problem, QUICK).evaluate(f"COUNT = []\n{late}")
    assert outcome.status is Status.WRONG_VALUES
    assert "wrong when timed" in outcome.detail
    assert said in outcome.detail


def test_state_is_found_by_name_or_by_the_only_one_whose_name_ends_alike() -> None:
    model = nn.ModuleDict({"norm": nn.BatchNorm1d(3), "other": nn.BatchNorm1d(4)})
    place = torch.empty(3)
    assert collect_state(model, {"norm.running_var": place}).kind == ""
    assert torch.equal(place, torch.ones(3))
    place.fill_(7)
    assert collect_state(model, {"inside.running_mean": place}).kind == ""
    assert torch.equal(place, torch.zeros(3))
    missing = collect_state(model, {"norm.momenta": place})
    assert (missing.kind, "none of that name" in missing.complaint) == ("state", True)
    assert "shape (4,) instead of (3,)" in collect_state(model, {"other.running_var": place}).complaint
    assert collect_state(object(), {"x": place}).kind == "state"
