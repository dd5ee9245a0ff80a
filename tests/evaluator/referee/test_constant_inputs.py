"""Inputs that are the same in every draw are varied wherever the reference stays finite."""

from __future__ import annotations

import random

import pytest
import torch

from kernelwright.evaluator.ipc.tensor_layout import place, stacked
from kernelwright.evaluator.referee.reference.constant_inputs import (
    ConstantInputs,
    variation_seed,
    variations,
)
from kernelwright.evaluator.referee.timing.timed_inputs import TimedInputs
from kernelwright.evaluator.schema.evaluation import Status, Verification
from tests.evaluator.referee.in_process import QUICK, UNTIMED, Opener, opened
from tests.evaluator.referee.references import pool_of

__all__ = ["opened"]

PROBLEM = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x, mask, state):
        return torch.where(mask, torch.tanh(x), 0.5) + state
def get_inputs():
    return [torch.randn(64, 64), torch.ones(64, 64, dtype=torch.bool), torch.zeros(64)]
"""
KINDS = {
    "mask": torch.ones(6, 40, dtype=torch.bool),
    "mask of none": torch.zeros(6, 40, dtype=torch.bool),
    "mask of whole ones": torch.ones(6, 40, dtype=torch.int64),
    "causal": torch.ones(16, 16, dtype=torch.bool).tril(),
    "causal, masked": torch.ones(16, 16).triu(1),
    "causal, added": torch.full((16, 16), -torch.inf).triu(1),
    "lengths": torch.full((9,), 77),
    "positions": torch.arange(31),
    "positions of rows": torch.arange(31).repeat(4, 1),
    "zeros": torch.zeros(7, 9),
    "ones": torch.ones(7, 9),
    "halves": torch.full((7, 9), 0.5),
    "grid": torch.linspace(-1, 1, 33),
}


def _new(body: str) -> str:
    whole = "return torch.where(mask, torch.tanh(x), 0.5) + state"
    assert whole in PROBLEM
    return PROBLEM.replace("class Model(", "class ModelNew(").replace(whole, body)


@pytest.mark.parametrize("values", KINDS.values(), ids=KINDS)
def test_other_values_are_of_the_same_kind(values: torch.Tensor) -> None:
    options = variations(values)
    assert options
    for option in options:
        varied = option(values, torch.Generator().manual_seed(1)).to(values.dtype)
        assert varied.shape == values.shape
        assert not torch.equal(varied, values)
        assert not torch.equal(varied, option(values, torch.Generator().manual_seed(2)))
        if values.dtype == torch.int64:
            assert int(varied.min()) >= 0
            assert int(varied.max()) <= int(values.max())


@pytest.mark.parametrize(
    "name", ["mask", "mask of none", "causal", "causal, added", "lengths", "positions", "positions of rows"]
)
def test_one_element_changes_under_every_other_seed(name: str) -> None:
    values, places = KINDS[name], set()
    rows = len(values) if name == "positions of rows" else 1
    for secret in range(20):
        seed = variation_seed(secret, sparse=True)
        varied = variations(values)[0](values, torch.Generator().manual_seed(seed))
        changed = (varied != values).nonzero()
        assert len(changed) == (2 * rows if "positions" in name else 1)
        places |= {tuple(place.tolist()) for place in changed}
        dense = variation_seed(secret, sparse=False)
        many = variations(values)[0](values, torch.Generator().manual_seed(dense))
        assert int((many != values).sum()) > 3 * rows
    assert len(places) > 5


def test_masks_keep_the_first_place_of_a_row_and_what_causality_hides() -> None:
    for name, seed in (("mask", 1), ("mask of none", 2), ("mask of whole ones", 3)):
        values = KINDS[name]
        varied = variations(values)[0](values, torch.Generator().manual_seed(seed))
        assert torch.equal(varied[:, 0], values[:, 0])
    above = torch.ones(16, 16, dtype=torch.bool).triu()
    for name in ("causal", "causal, masked", "causal, added"):
        values = KINDS[name]
        varied = variations(values)[0](values, torch.Generator().manual_seed(4))
        assert torch.equal(varied[above], values[above])


def test_positions_are_permuted_and_a_grid_stays_in_order() -> None:
    generator = torch.Generator().manual_seed(1)
    for name in ("positions", "positions of rows"):
        varied = variations(KINDS[name])[0](KINDS[name], generator)
        assert torch.equal(varied.sort(-1).values, KINDS[name])
    grid = variations(KINDS["grid"])[0](KINDS["grid"], generator)
    assert bool((grid.diff() > 0).all())


@pytest.mark.parametrize(
    "values",
    [
        torch.tensor([0, 4, 8, 12]),
        torch.zeros(5, dtype=torch.int64),
        torch.tensor(True),
        torch.arange(64).view(8, 8) % 3 == 0,
        torch.full((4,), -torch.inf),
        torch.zeros(0),
    ],
    ids=["boundaries", "whole zeros", "one flag", "another mask", "infinite", "empty"],
)
def test_what_has_no_other_values_of_its_kind_stays(values: torch.Tensor) -> None:
    assert variations(values) == ()


def test_only_what_every_draw_repeats_is_constant() -> None:
    draws = iter([[torch.ones(3), torch.tensor([1, 2])], [torch.ones(3), torch.tensor([2, 1])]] * 2)
    assert ConstantInputs.of([torch.ones(3), torch.tensor([1, 2])], lambda: next(draws)).found == (0,)


def test_numbers_are_noise_in_every_draw_and_masks_in_trials_of_their_own() -> None:
    pool = pool_of(PROBLEM, 5)
    assert pool.constant.found == (1, 2)
    trials = {trial.name: trial.arguments.leaves for trial in pool.draws[0].trials}
    assert [name for name, leaves in trials.items() if not leaves[1].all()] == ["constant_inputs"]
    assert [name for name, leaves in trials.items() if not leaves[2].any()] == ["as_given"]
    assert not torch.equal(*(trial.arguments.leaves[2] for trial in pool.bases))
    assert {"constant_inputs", "as_given"} <= {trial.name for trial in pool.draws[1].trials}
    masks = [trial.arguments.leaves[1] for trial in pool.draws[0].trials if trial.name == "constant_inputs"]
    few, many = sorted(int((~mask).sum()) for mask in masks)
    assert few == 1 < many
    assert pool.constant_inputs == ()


def test_what_is_not_finite_is_left_and_recorded(opened: Opener) -> None:
    source = PROBLEM.replace("0.5) + state", "float('nan')) + state")
    referee = opened(source, UNTIMED)
    outcome = referee.evaluate(source.replace("class Model(", "class ModelNew("))
    found = outcome.records[Verification]
    assert isinstance(found, Verification)
    assert (outcome.status, found.constant_inputs) == (Status.PASSED, ("input 1",))
    assert "constant_inputs" in found.distributions


def test_some_calls_of_a_turn_that_is_not_scored_have_other_masks() -> None:
    pool = pool_of(PROBLEM, 5)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(1), constant=pool.constant)
    slots, size = place(pool.bases[0].arguments.leaves, count=8, block=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    masks = []
    for varied in [False] + [True] * 60:
        inputs.publish(memory, slots, inputs.varied_recipe(8) if varied else inputs.recipe(8))
        masks.append(stacked(memory, slots[1], 0, 8).flatten(1).all(1).tolist())
    assert inputs.varies_structure
    assert masks[0] == [True] * 8
    assert {mask.count(False) for mask in masks[1:]} == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("return torch.where(mask, torch.tanh(x), 0.5).add_(state)", Status.PASSED),
        (
            "y = torch.tanh(x); return (y if mask.all() else torch.where(mask, y, 0.5)) + state",
            Status.PASSED,
        ),
        ("return torch.tanh(x) + state", Status.WRONG_VALUES),
        ("return torch.where(mask, torch.tanh(x), 0.5)", Status.WRONG_VALUES),
        ("return torch.where(mask, torch.tanh(x), 0.5) + state if state.any() else x", Status.WRONG_VALUES),
    ],
    ids=["read", "looked at", "mask left out", "state left out", "wrong for zeros"],
)
def test_a_candidate_that_takes_them_for_granted_is_wrong(opened: Opener, body: str, status: Status) -> None:
    assert opened(PROBLEM, UNTIMED).evaluate(_new(body)).status is status


def test_a_mask_that_is_read_in_the_first_calls_only_is_wrong_when_timed(opened: Opener) -> None:
    body = "COUNT.append(0); return torch.where(mask | (len(COUNT) > 60), torch.tanh(x), 0.5) + state"
    outcome = opened(PROBLEM, QUICK).evaluate(f"COUNT = []\n{_new(body)}")
    assert outcome.status is Status.WRONG_VALUES
    assert "wrong when timed" in outcome.detail
