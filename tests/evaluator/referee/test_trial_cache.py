"""Trials in little memory: worked out again, and the same ones."""

from __future__ import annotations

import pytest
import torch

from kernelwright.evaluator import ProblemError
from kernelwright.evaluator.referee.correctness.input_distributions import VARIANTS, Starts, _scattered
from kernelwright.evaluator.referee.correctness.policy import AROUND
from kernelwright.evaluator.referee.correctness.trial_cache import SolvedTrial, Trial, TrialCache
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.reference.constant_inputs import Variation
from tests.evaluator.referee.references import pool_of

AROUND_SPIKED = Starts([], AROUND, signed=True, spiked=256)

SOURCE = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 16)
    def forward(self, x, keep):
        return self.linear(x) * keep, x.argmax(-1)
def get_inputs():
    return [torch.randn(64, 32), (torch.rand(64, 1) < 0.5).float()]
def get_init_inputs():
    return []
"""


def _pool(memory_bytes: int, source: str = SOURCE) -> TrialPool:
    return pool_of(source, 7, memory_bytes=memory_bytes)


def _tensors(solved: SolvedTrial) -> list[torch.Tensor]:
    exact = [leaf.exact for leaf in solved.expected.leaves]
    return [*solved.arguments.leaves, *solved.expected.output.leaves, *exact]


def _trials(pool: TrialPool) -> list[Trial]:
    return [*pool.bases, *(trial for draw in pool.draws for trial in draw.trials), *pool.starts().trials]


def test_what_is_worked_out_again_is_the_same() -> None:
    roomy, narrow = _trials(_pool(1 << 30)), _trials(_pool(0))
    assert [trial.name for trial in roomy] == [trial.name for trial in narrow]
    assert len(roomy) >= 10
    assert all(trial.kept is not None for trial in roomy)
    for _ in range(2):
        for one, other in zip(roomy, narrow, strict=True):
            left, right = one.solved, other.solved
            assert all(map(torch.equal, _tensors(left), _tensors(right))), one.name
            assert left.expected.leaves[0].scale is not None
            assert torch.equal(left.expected.leaves[0].scale, right.expected.leaves[0].scale)
    assert sum(trial.kept is not None for trial in set(narrow)) == 1


def test_inputs_that_hang_on_the_number_of_threads_are_worked_out_again_as_they_were() -> None:
    source = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.rand(64) + 1 / torch.get_num_threads()]
"""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        pool = _pool(0, source)
        torch.set_num_threads(2)
        assert float(pool.bases[1].arguments.leaves[0].min()) >= 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_a_shelf_holds_no_more_than_its_budget_and_the_newest() -> None:
    solved = _pool(0).bases[0].solved
    calls: list[int] = []
    shelf = TrialCache(3 * solved.size_bytes)

    def trial(number: int) -> Trial:
        def solve() -> SolvedTrial:
            calls.append(number)
            return solved

        return Trial(str(number), 1.0, solve, shelf)

    trials = [trial(number) for number in range(4)]
    for number in (0, 1, 2, 0, 3, 0, 2, 1):
        assert trials[number].solved is solved
    assert calls == [0, 1, 2, 3, 1]
    trials[1].forget()
    assert trials[1].kept is None


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.bfloat16, torch.float32, torch.complex64])
def test_inputs_that_come_out_otherwise_are_told_whatever_they_hold(dtype: torch.dtype) -> None:
    """An answer to them would be called wrong: a problem's mistake, and no candidate's."""
    unseeded = f"(9 * torch.rand(64, 1, generator=G) - 4).relu().to({dtype})"
    source = SOURCE.replace("(torch.rand(64, 1) < 0.5).float()", unseeded).replace("* keep", "* keep.real")
    source = source.replace("class Model", "G = torch.Generator()\nclass Model", 1)
    with pytest.raises(ProblemError, match="other inputs under one seed"):
        _trials(_pool(0, source))
    assert _trials(_pool(1 << 30, source))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("variant", [VARIANTS["outliers"], AROUND_SPIKED.scatter])
def test_a_place_that_is_drawn_twice_gets_one_value(variant: Variation, seed: int) -> None:
    """Of two writes to it either may be the last on a GPU, and inputs are drawn more than once."""
    values = torch.ones(100_000)
    places, numbers = _scattered(1000, 700, torch.Generator().manual_seed(seed), values.device)
    assert places.unique().numel() < 600
    assert len({*zip(places.tolist(), numbers.tolist(), strict=True)}) == places.unique().numel()
    made = [variant(values, torch.Generator().manual_seed(seed)) for _ in range(2)]
    assert torch.equal(*made)
    assert (made[0] != 1).any()
