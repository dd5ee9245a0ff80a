"""How far timed outputs may be from the baseline's."""

import random

import pytest
import torch

from kernelwright.evaluator.referee.correctness.discontinuities import (
    FlippedElements,
    FlipTolerance,
)
from kernelwright.evaluator.referee.correctness.input_distributions import Starts
from kernelwright.evaluator.referee.correctness.policy import AROUND, FEW_INDEX_FLIPS
from kernelwright.evaluator.referee.correctness.tolerance import Expected, ExpectedLeaf
from kernelwright.evaluator.referee.correctness.trial_cache import SolvedTrial, Trial
from kernelwright.evaluator.referee.reference.reference import Arguments, Output
from kernelwright.evaluator.referee.timing.timed_inputs import TimedInputs
from kernelwright.evaluator.referee.timing.timed_outputs import ExactCheck, TimedOutputs
from tests.evaluator.referee.timed_trials import LOOSE, TIGHT, made_inputs, made_trial


def test_each_base_is_held_to_its_own_limit():
    inputs = made_inputs()
    outputs, recipe = TimedOutputs(inputs, limit=LOOSE), inputs.recipe(16)
    tight = recipe.bases == 1
    assert tight.any()
    assert not tight.all()
    right = torch.zeros(16, 8, 64)
    between = 1e-7 * (LOOSE + TIGHT) / 2
    own = right + between
    assert "times the rounding error" in outputs.compare([own], [right], recipe, {}).mismatch
    own[tight] = right[tight]
    assert outputs.compare([own], [right], recipe, {}).mismatch == ""


def test_timed_outputs_err_by_the_limit_and_the_baselines_own_error_and_no_more():
    inputs = made_inputs()
    outputs, recipe = TimedOutputs(inputs, limit=LOOSE), inputs.recipe(16)
    right = torch.zeros(16, 8, 64)
    bounds = torch.where(recipe.bases == 1, TIGHT, LOOSE)[:, None, None] * 1e-7
    assert outputs.compare([right + bounds], [right], recipe, {}).mismatch == ""
    found = outputs.compare([right + 1.5 * bounds], [right], recipe, {}).mismatch
    assert found.startswith("output 0, timed calls 1 to 16: error")


@pytest.mark.parametrize("correct", [False, True])
def test_calls_that_err_more_than_the_draws_let_expect_are_compared_with_exact_outputs(correct):
    inputs = made_inputs()
    recipe, asked = inputs.recipe(16), []

    def is_correct(arguments: Arguments, outputs: list[torch.Tensor], limit: float) -> bool:
        asked.append((arguments.leaves[0], outputs[0], limit))
        return correct

    outputs = TimedOutputs(inputs, limit=LOOSE, is_correct=is_correct)
    right = torch.zeros(16, 8, 64)
    own = right.clone()
    own[5, 3] = 1.0
    assert (outputs.compare([own], [right], recipe, {}).mismatch == "") == correct
    ((given, got, limit),) = asked
    assert torch.equal(given, inputs.arguments(recipe, 5).leaves[0])
    assert torch.equal(got, own[5])
    assert limit == (TIGHT if recipe.bases[5] == 1 else LOOSE)
    own[:, 3] = 1.0
    assert outputs.compare([own], [right], recipe, {}).mismatch, "nobody doubts what is often wrong"
    assert len(asked) == 1


def test_more_calls_of_a_large_batch_may_err_more():
    inputs, asked = made_inputs(), []
    outputs = TimedOutputs(inputs, limit=LOOSE, is_correct=lambda *call: not asked.append(call))
    right = torch.zeros(32, 8, 64)
    own = right.clone()
    own[::5, 3] = 1.0
    assert outputs.compare([own], [right], inputs.recipe(32), {}).mismatch == ""
    assert len(asked) == 7
    own[::3, 3] = 1.0
    assert outputs.compare([own], [right], inputs.recipe(32), {}).mismatch


def test_what_all_calls_left_behind_errs_by_what_each_of_them_may():
    inputs = made_inputs()
    outputs, recipe = TimedOutputs(inputs, limit=LOOSE), inputs.recipe(16)
    right = torch.zeros(1, 8, 64)
    bound = (TIGHT if recipe.bases[-1] == 1 else LOOSE) * 1e-7
    assert outputs.compare([right + 15 * bound], [right], recipe, {}).mismatch == ""
    found = outputs.compare([right + 25 * bound], [right], recipe, {}).mismatch
    assert "timed calls 16 to 16: error" in found


def test_an_output_without_elements_is_right():
    trial = made_trial("as_drawn", LOOSE)
    inputs = TimedInputs(Starts([trial], AROUND, True), lambda: trial.arguments, secret=random.Random(3))
    empty = torch.empty(4, 0, 64)
    assert TimedOutputs(inputs, limit=LOOSE).compare([empty], [empty], inputs.recipe(4), {}).mismatch == ""


def test_nothing_has_flipped_before_the_first_call():
    tolerance = FlipTolerance(0.0, together=1)
    assert tolerance.allows(FlippedElements(2, 10), FlippedElements())
    assert not tolerance.allows(FlippedElements(2, 10), FlippedElements(1, 10))
    assert not tolerance.allows(FlippedElements(3, 10), FlippedElements())


def outputs_of_places(rows: int, is_correct: ExactCheck | None = None) -> tuple[TimedInputs, TimedOutputs]:
    """Inputs and outputs of a problem that returns a place in every row, without ties in verified calls."""

    def solved() -> SolvedTrial:
        places = torch.arange(rows)
        output = Output({"k": "tensor", "i": 0}, [places], [False])
        leaf = ExpectedLeaf(places, places, unsettled=torch.zeros(rows, dtype=torch.bool))
        expected = Expected(output, [leaf], in_double=True)
        return SolvedTrial(made_trial("as_drawn", LOOSE).arguments, expected)

    trial = Trial("as_drawn", LOOSE, solved)
    inputs = TimedInputs(Starts([trial], AROUND, True), lambda: solved().arguments, secret=random.Random(3))
    return inputs, TimedOutputs(inputs, limit=LOOSE, is_correct=is_correct)


@pytest.mark.parametrize("correct", [False, True])
def test_the_first_places_that_differ_are_compared_with_exact_ones(correct):
    asked: list[torch.Tensor] = []

    def is_correct(arguments: Arguments, outputs: list[torch.Tensor], limit: float) -> bool:
        asked.append(outputs[0])
        return correct

    inputs, outputs = outputs_of_places(1 << 15, is_correct)
    recipe, right = inputs.recipe(16), torch.arange(16).unsqueeze(1) + torch.arange(1 << 15)
    other = right.clone()
    other[3, 0] += 1
    other[5, 0] += 1
    assert (outputs.compare([other], [right], recipe, {}).mismatch == "") == correct
    (got,) = asked
    assert torch.equal(got, other[3])
    many = {0: FlippedElements(FEW_INDEX_FLIPS, 1 << 15)}
    again = outputs.compare([other], [right], recipe, many)
    assert again.mismatch == ""
    assert len(asked) == 1


@pytest.mark.parametrize("rows", [1, 64, 1 << 15])
def test_a_few_timed_rows_may_hold_two_equal_maxima(rows):
    inputs, outputs = outputs_of_places(rows)
    recipe, right = inputs.recipe(16), torch.arange(16).unsqueeze(1) + torch.arange(rows)
    assert outputs.compare([right], [right], recipe, {}).mismatch == ""
    tied = right.clone()
    tied[3, 0] += 1
    flipped: dict[int, FlippedElements] = {}
    for _ in range(FEW_INDEX_FLIPS if rows > 1 else 1):
        found = outputs.compare([tied], [right], recipe, flipped)
        assert found.mismatch == ""
        flipped = found.flipped
    assert bool(outputs.compare([tied], [right], recipe, flipped).mismatch) == (rows < 100)


@pytest.mark.parametrize("rows", [1, 64, 1 << 15])
def test_places_that_are_often_others_are_wrong(rows):
    inputs, outputs = outputs_of_places(rows)
    recipe, right = inputs.recipe(16), torch.arange(16).unsqueeze(1) + torch.arange(rows)
    others = right.clone()
    others[:, : max(1, rows // 16)] += 1
    assert outputs.compare([others], [right], recipe, {}).mismatch
