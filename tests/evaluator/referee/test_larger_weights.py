"""Random weights are larger in the second draw, as far as the reference's answers keep their meaning."""

from __future__ import annotations

import pytest
import torch

from kernelwright.evaluator.ipc.model_state import named_state
from kernelwright.evaluator.ipc.weight_spread import UNCHANGED
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.schema.evaluation import Status, Verification
from tests.evaluator.referee.in_process import UNTIMED, Opener, opened
from tests.evaluator.referee.references import pool_of, reference_of

__all__ = ["opened"]

PROBLEM = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}
    def forward(self, x):
        return {used}
def get_inputs():
    return [torch.randn(64, 32)]
"""
MATRIX = "self.weight = nn.Parameter(torch.empty(32, 32).uniform_(-0.002, 0.002))"


def _pool(made: str, used: str) -> TrialPool:
    return pool_of(PROBLEM.format(made=made, used=used), 3)


def test_the_second_draw_has_larger_weights_and_the_timed_one_its_own() -> None:
    pool = _pool(MATRIX, "x @ self.weight")
    first, second = pool.draws
    assert (first.spread, second.spread.factor, pool.weight_factor) == (UNCHANGED, 4.0, 4.0)
    assert [trial.name for trial in second.trials] == ["larger_weights", "zero_mean"]
    usual, larger = (named_state(draw.model)["weight"].detach().abs().max() for draw in (first, second))
    assert float(usual) < 0.0021 < 0.006 < float(larger)
    assert second.given == {}


STAY = {
    "positive": ("self.held = nn.Parameter(0.1 + torch.rand(64, 1))", "x @ self.weight * self.held"),
    "decays": ("self.held = nn.Parameter(0.9 + 0.09 * torch.rand(64, 1))", "x @ self.weight * self.held"),
    "logarithms": ("self.held = nn.Parameter(torch.rand(64, 1).log())", "x @ self.weight * self.held"),
    "rising": (
        "self.register_buffer('held', (0.1 + torch.rand(32)).cumsum(0))",
        "x @ self.weight * self.held",
    ),
    "places": (
        "self.register_buffer('held', (torch.rand(16) * 32).long())",
        "(x @ self.weight)[:, self.held]",
    ),
}


@pytest.mark.parametrize(("made", "used"), STAY.values(), ids=STAY)
def test_draws_whose_numbers_would_lose_their_meaning_stay(made: str, used: str) -> None:
    pool = _pool(f"{MATRIX}; {made}", used)
    second = pool.draws[1]
    plain = named_state(reference_of(PROBLEM.format(made=f"{MATRIX}; {made}", used=used)).model(second.seed))
    assert second.spread.factor > 1
    assert torch.equal(plain["held"], named_state(second.model)["held"])
    assert not torch.equal(plain["weight"], named_state(second.model)["weight"])


def test_positive_numbers_stay_positive_where_a_smaller_factor_lets_them() -> None:
    pool = _pool("self.weight = nn.Parameter(0.5 + torch.rand(32))", "x * self.weight")
    assert pool.weight_factor in (1.5, 2.0)
    assert bool((pool.draws[1].model.weight > 0).all())


SMALLER = {
    "a recurrence that four times the weights make chaotic": (
        "self.weight = nn.Parameter(0.8 * torch.randn(32, 32) / 32**0.5)",
        "[x := torch.tanh(x @ self.weight + 0.01 * first) for first in [x] for _ in range(100)][-1]",
        (1.5, 2.0),
    ),
    "powers that overflow": (
        "self.weight = nn.Parameter(1e9 * torch.randn(32, 32))",
        "x @ self.weight @ self.weight @ self.weight @ self.weight",
        (1.0,),
    ),
    "an answer that vanishes": (
        "self.weight = nn.Parameter(0.2 * torch.randn(32, 32))",
        "torch.exp(-(x @ self.weight).square().sum(-1))",
        (1.0, 1.5, 2.0),
    ),
}


@pytest.mark.parametrize(("made", "used", "factors"), SMALLER.values(), ids=SMALLER)
def test_a_reference_that_does_not_stand_it_gets_less(made: str, used: str, factors: tuple[float]) -> None:
    assert _pool(made, used).weight_factor in factors


def test_without_random_weights_there_is_nothing_to_tell() -> None:
    assert _pool("pass", "torch.relu(x)").weight_factor is None
    assert _pool("self.weight = nn.Parameter(torch.ones(32))", "x * self.weight").weight_factor is None


def test_a_term_that_vanishes_beside_small_weights_is_not_left_out(opened: Opener) -> None:
    referee = opened(PROBLEM.format(made=MATRIX, used="torch.sin(x[:, :1] * self.weight[0])"), UNTIMED)
    small = "x[:, :1] * self.weight[0]"
    series = f"{small} - ({small}) ** 3 / 6"
    outcome = referee.evaluate(_candidate(MATRIX, f"torch.sin({small})"))
    assert (outcome.status, _verification(outcome).weight_factor) == (Status.PASSED, 4.0)
    outcome = referee.evaluate(_candidate(MATRIX, small))
    assert outcome.status is Status.WRONG_VALUES
    assert referee.evaluate(_candidate(MATRIX, series)).status is Status.PASSED  # exact at any of these sizes


def test_a_candidate_may_draw_the_same_by_other_calls_and_pack_it(opened: Opener) -> None:
    referee = opened(PROBLEM.format(made=MATRIX, used="x @ self.weight"), UNTIMED)
    packs = "self.packed = ((torch.rand(32, 32) * 2 - 1) * 0.002).t().contiguous()"
    outcome = referee.evaluate(_candidate(packs, "x @ self.packed.t()"))
    assert (outcome.status, _verification(outcome).parameters) == (Status.PASSED, "seed")


def test_weights_that_are_loaded_by_name_are_the_larger_ones(opened: Opener) -> None:
    referee = opened(PROBLEM.format(made=MATRIX, used="x @ self.weight"), UNTIMED)
    outcome = referee.evaluate(
        _candidate("self.weight = nn.Parameter(torch.empty(32, 32))", "x @ self.weight")
    )
    assert (outcome.status, _verification(outcome).parameters) == (Status.PASSED, "state_dict")


def _candidate(made: str, used: str) -> str:
    return PROBLEM.format(made=made, used=used).replace("class Model(", "class ModelNew(")


def _verification(outcome) -> Verification:
    found = outcome.records[Verification]
    assert isinstance(found, Verification)
    return found
