"""What timed calls are given and how their outputs are compared."""

import random

import pytest
import torch

from kernelwright.evaluator.ipc.tensor_layout import place, stacked
from kernelwright.evaluator.referee.correctness.comparison import BaselineOutput, compare_with_baseline
from kernelwright.evaluator.referee.correctness.discontinuities import FlippedElements, FlipTolerance
from kernelwright.evaluator.referee.correctness.input_distributions import Starts
from kernelwright.evaluator.referee.correctness.policy import AROUND, BELOW, NEAR, NEARBY, SPIKES
from kernelwright.evaluator.referee.timing.timed_inputs import ComparedCall, TimedInputs
from kernelwright.evaluator.referee.timing.timed_outputs import TimedOutputs, _share
from tests.evaluator.referee.references import pool_of
from tests.evaluator.referee.timed_trials import LOOSE, made_inputs, made_trial


def _disagree(own, right, scale, bounds, flips=None):
    expected = BaselineOutput(right, scale, bounds, tolerance=flips or FlipTolerance())
    return compare_with_baseline(expected, own, earlier=FlippedElements()).mismatch


def test_what_the_baseline_alone_overflows_on_is_not_compared():
    right = torch.randn(2, 8, 64)
    scale, bounds = torch.full((2, 8), 1e-6), torch.full((2,), 136.0)
    lost = right.clone()
    lost[0, 0, 0] = torch.nan
    for may_overflow, found in ((True, ""), (False, "NaN or infinity")):
        expected = BaselineOutput(lost, scale, bounds, may_overflow=may_overflow)
        assert compare_with_baseline(expected, right, earlier=FlippedElements()).mismatch.startswith(found)
    expected = BaselineOutput(right, scale, bounds, may_overflow=True)
    assert compare_with_baseline(expected, lost, earlier=FlippedElements()).mismatch
    expected = BaselineOutput(torch.full_like(right, torch.nan), scale, bounds, may_overflow=True)
    assert compare_with_baseline(expected, right, earlier=FlippedElements()).mismatch


def _published(inputs: TimedInputs, count: int = 4) -> torch.Tensor:
    slots, size = place([torch.empty(8, 64)], count=count, block=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    inputs.publish(memory, slots, inputs.recipe(count))
    return stacked(memory, slots[0], 0, count)


def test_inputs_of_timed_calls_are_far_from_what_they_start_from():
    values = torch.randn(8, 64)
    ratios = _published(made_inputs(values=values)) / values
    assert ratios.abs().min() >= AROUND[0] * (1 - NEARBY)
    assert ratios.abs().max() <= AROUND[1] * (1 + NEARBY)
    assert ratios.abs().std() > 0.1
    assert 0.4 < (ratios > 0).float().mean() < 0.6
    assert ratios.std() > 0.5


def test_inputs_keep_their_signs_where_the_answer_needs_them():
    values = torch.rand(8, 64)
    for between in (AROUND, BELOW, NEAR):
        ratios = _published(made_inputs(values=values, signed=False, between=between)) / values
        assert ratios.min() >= between[0] * (1 - NEARBY)
        assert ratios.max() <= between[1] * (1 + NEARBY)


def test_a_call_is_given_inputs_near_those_of_an_earlier_batch():
    inputs = made_inputs()
    slots, size = place([torch.empty(8, 64)], count=8, block=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    first = inputs.recipe(8)
    inputs.publish(memory, slots, first)
    earlier = stacked(memory, slots[0], 0, 8)[3].clone()
    second = inputs.recipe(8, ComparedCall(first, 3, [], []))
    assert second.near is not None
    inputs.publish(memory, slots, second)
    ratios = stacked(memory, slots[0], 0, 8) / earlier
    near = (ratios - 1).abs().amax((1, 2)) < 2 * NEARBY
    assert near.nonzero().flatten().tolist() == [second.near.call]
    assert (ratios[second.near.call] != 1).float().mean() > 0.9
    again = torch.stack([inputs.arguments(second, call).leaves[0] for call in range(8)])
    assert torch.equal(again, stacked(memory, slots[0], 0, 8)), "any call's inputs can be made again"


def test_masks_and_labels_are_published_as_they_are():
    labels = (torch.rand(8, 64) < 0.5).float() * 2 - 1
    inputs = made_inputs(values=labels)
    assert inputs.whole_draws
    assert torch.equal(_published(inputs)[0], labels)


def test_no_two_calls_and_no_two_batches_are_given_the_same_inputs():
    inputs = made_inputs()
    slots, size = place([torch.empty(8, 64)], count=4, block=0)
    seen = []
    for _ in range(3):
        memory = torch.zeros(size, dtype=torch.uint8)
        inputs.publish(memory, slots, inputs.recipe(4))
        seen += [call.clone() for call in stacked(memory, slots[0], 0, 4)]
    assert not any(torch.equal(a, b) for at, a in enumerate(seen) for b in seen[:at])


def test_an_earlier_batchs_noise_tells_nothing_of_the_next():
    inputs = made_inputs()
    one, other = (inputs.recipe(4).noise[torch.float32] for _ in range(2))
    assert (one == other).float().mean() < 0.01


def test_few_marks_in_a_mask_cannot_be_left_out():
    right = torch.zeros(4, 100_000, dtype=torch.bool)
    right[:, 17] = True
    assert _disagree(right.clone(), right, None, torch.ones(4)) == ""
    assert "4 of 400,000" in _disagree(torch.zeros_like(right), right, None, torch.ones(4))


def test_a_near_tie_in_very_many_indices_may_go_the_other_way():
    right = torch.randint(0, 50, (4, 100_000))
    own = right.clone()
    own[0, :9] += 1
    assert _disagree(own, right, None, torch.ones(4)) == ""
    own[1, :60] += 1
    assert _disagree(own, right, None, torch.ones(4)) != ""


def test_what_a_threshold_leaves_out_may_be_infinite_and_never_nan():
    right, scale, bounds = torch.full((2, 1, 64), 1.5), torch.full((2, 1), 1e-6), torch.full((2,), 99.0)
    right[:, :, 32:] = -torch.inf
    assert _disagree(right.clone(), right, scale, bounds) == ""
    own = right.clone()
    own[1, 0, 31:33] = torch.tensor([-torch.inf, 1.5])
    assert "infinity" in _disagree(own, right, scale, bounds)
    assert _disagree(own, right, scale, bounds, flips=FlipTolerance(0.0, 2)) == ""
    own[1, 0, 31] = torch.nan
    assert "NaN" in _disagree(own, right, scale, bounds, flips=FlipTolerance(0.0, 2))


def test_small_jumps_of_a_short_row_are_jumps_too():
    right, scale, bounds = torch.full((2, 1, 64), 1500.0), torch.full((2, 1), 2.4e-4), torch.full((2,), 520.0)
    own = right.clone()
    own[1, 0, 7:9] += torch.tensor([1.0, -1.0])
    assert "times the rounding error" in _disagree(own, right, scale, bounds)
    assert _disagree(own, right, scale, bounds, flips=FlipTolerance(0.0, 2)) == ""
    own[1, 0, 20:26] -= 1.0
    assert "times the rounding error" in _disagree(own, right, scale, bounds, flips=FlipTolerance(0.0, 2))


def test_answers_whose_squares_overflow_are_compared_too():
    right = torch.randn(2, 64, 256) * 1e25
    scale, bounds = torch.full((2, 64), 1e18, dtype=torch.float64), torch.full((2,), LOOSE)
    assert _disagree(right * (1 + 1e-7 * torch.randn_like(right)), right, scale, bounds) == ""
    assert "times the rounding error" in _disagree(right * 1.001, right, scale, bounds)


def test_answers_in_double_precision_are_compared_in_it():
    right = torch.randn(2, 64, 2048, dtype=torch.float64)
    scale, bounds = torch.full((2, 64), 1e-16, dtype=torch.float64), torch.full((2,), LOOSE)
    near = right * (1 + 4e-15 * torch.randn_like(right))
    assert _disagree(near, right, scale, bounds) == ""
    assert "times the rounding error" in _disagree(right.float().double(), right, scale, bounds)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_answers_are_held_to_a_few_roundings_when_timed(dtype):
    exact = torch.randn(4, 64, 64)
    scale, bounds = torch.zeros(4, 64), torch.full((4,), 24.0)
    rounded = exact.to(dtype)
    assert _disagree((exact * (1 + torch.finfo(dtype).eps)).to(dtype), rounded, scale, bounds) == ""
    sampled = (exact * (1 + 8 * torch.finfo(dtype).eps)).to(dtype)
    assert "rounding error" in _disagree(sampled, rounded, scale, bounds)


def test_eight_bits_are_compared_like_any_other_numbers():
    right = torch.randn(4, 8, 64).to(torch.float8_e4m3fn)
    scale, bounds = torch.full((4, 8), 1e-3), torch.full((4,), 4.0)
    assert _disagree(right.clone(), right, scale, bounds) == ""
    assert "rounding error" in _disagree((-right.float()).to(right.dtype), right, scale, bounds)


ROWS = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return {0}
def get_inputs():
    return [{1}]
"""


def _timed_inputs(source: str, shape: tuple[int, ...], count: int = 4) -> tuple[TimedInputs, torch.Tensor]:
    """What the calls of a batch are given."""
    pool = pool_of(source, 5)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(6))
    slots, size = place([torch.empty(shape)], count=count, block=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    inputs.publish(memory, slots, inputs.recipe(count))
    return inputs, stacked(memory, slots[0], 0, count)


def test_bounds_learned_of_an_element_do_not_hold_for_the_next_call():
    _, given = _timed_inputs(ROWS.format("x.argmax(-1)", "torch.rand(64, 1024) + 1"), (64, 1024))
    most = 2 * AROUND[1]
    beyond = given.abs() > most
    assert 16 <= int(beyond[0].sum()) <= 160
    assert not any(torch.equal(beyond[0], other) for other in beyond[1:])


def test_nothing_stands_out_in_batches_of_the_other_kind():
    pool = pool_of(ROWS.format("x.argmax(-1)", "torch.rand(64, 1024) + 1"), 5)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(6))
    assert inputs.has_kinds
    slots, size = place([torch.empty(64, 1024)], count=8, block=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    inputs.publish(memory, slots, inputs.recipe(8, spiked=False))
    assert float(stacked(memory, slots[0], 0, 8).abs().max()) <= 2 * AROUND[1] * (1 + 2.0**-7)


def test_elements_known_to_be_large_may_be_the_least_of_the_next_call():
    _, given = _timed_inputs(ROWS.format("x.sqrt().amin(-1)", "torch.rand(64, 1024) + 1"), (64, 1024))
    vanishing = given < AROUND[0] / 2
    assert 16 <= int(vanishing[0].sum()) <= 160
    assert not any(torch.equal(vanishing[0], other) for other in vanishing[1:])
    assert given.max() > 2 * AROUND[1], "others stand out"


def test_no_element_nearly_vanishes_where_the_reference_would_not_stay_finite():
    _, given = _timed_inputs(ROWS.format("(x - 0.4).log()", "torch.rand(64, 1024) + 1"), (64, 1024))
    assert given.min() > 0.4
    assert given.max() > 2 * AROUND[1], "others stand out"


@pytest.mark.parametrize(
    ("drawn", "is_plain"), [("torch.rand(64, 1024)", True), ("torch.randn(64, 1024)", False)]
)
def test_batches_of_the_other_kind_keep_the_one_sign_of_a_problems_own_inputs(drawn: str, is_plain: bool):
    pool = pool_of(ROWS.format("torch.relu(x)", drawn), 5)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(6))
    slots, size = place([torch.empty(64, 1024)], count=4, block=0)
    earlier = ComparedCall(inputs.recipe(4, spiked=False), 0, [], [])
    for spiked in (True, False):
        recipe = inputs.recipe(4, earlier, spiked=spiked)
        memory = torch.zeros(size, dtype=torch.uint8)
        inputs.publish(memory, slots, recipe)
        given = stacked(memory, slots[0], 0, 4)
        assert recipe.plain == (is_plain and not spiked)
        assert bool((given >= 0).all()) == recipe.plain
        assert torch.equal(inputs.arguments(recipe, 2).leaves[0], given[2])


def test_plain_batches_are_compared_at_scales_of_their_own():
    pool = pool_of(ROWS.format("x.sum(-1)", "torch.rand(64, 1024)"), 5)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(6))
    outputs = TimedOutputs(inputs, limit=LOOSE)
    for spiked in (True, False):
        recipe = inputs.recipe(4, spiked=spiked)
        right = torch.stack([inputs.arguments(recipe, call).leaves[0].sum(-1) for call in range(4)])
        assert outputs.compare([right], [right], recipe, {}).mismatch == ""
        assert outputs.compare([right * 1.01], [right], recipe, {}).mismatch


def test_no_element_stands_out_twice():
    """Errors of a transform grow with what stands out; scales are known for one factor of it."""
    source = ROWS.format("x.argmax(-1)", "torch.rand(64, 1024) + 1")
    _, given = _timed_inputs(source, (64, 1024), count=64)
    assert given.abs().max() <= 2 * AROUND[1] * SPIKES[1] * (1 + 2.0**-7)


def test_nothing_stands_out_where_the_reference_would_not_stay_finite():
    _, given = _timed_inputs(ROWS.format("torch.log(8 - x.abs())", "torch.rand(64, 1024) + 1"), (64, 1024))
    assert given.abs().max() < 8


def test_zeros_of_a_graph_are_others_in_every_call():
    source = ROWS.format("x @ x", "(torch.rand(64, 64) < 0.1).float() * torch.rand(64, 64)")
    inputs, given = _timed_inputs(source, (64, 64))
    assert not inputs.whole_draws
    zeros = given == 0
    assert not any(torch.equal(zeros[0], other) for other in zeros[1:])
    assert not any(torch.equal(call == 0, zeros[0]) for call in _timed_inputs(source, (64, 64))[1][1:])


def test_zeros_that_every_draw_has_stay():
    source = ROWS.format("x @ x", "torch.randn(64, 64).tril()")
    inputs, given = _timed_inputs(source, (64, 64))
    assert inputs.max_calls(1000) == 1000
    assert not given.triu(1).any()


@pytest.mark.parametrize(
    "function", ["torch.exp(x / 4).sum(-1)", "torch.softmax(x, -1)", "torch.logsumexp(x, -1)"]
)
def test_answers_that_few_inputs_decide_are_compared_fairly(function):
    """In double precision, and in single with another order: both are honest."""
    source = ROWS.format(function, "torch.randn(128, 2048)")
    inputs, given = _timed_inputs(source, (128, 2048))
    namespace: dict[str, object] = {}
    exec(f"import torch\ndef call(x):\n    return {function}", namespace)
    call = namespace["call"]
    outputs, recipe = TimedOutputs(inputs, limit=LOOSE), inputs.recipe(4)
    right = torch.stack([call(x) for x in given])
    for own in (
        torch.stack([call(x.double()).float() for x in given]),
        torch.stack([call(x.flip(-1)) for x in given]),
    ):
        own = own.flip(-1) if own.dim() == 3 and not torch.allclose(own, right, rtol=1e-3) else own
        assert outputs.compare([own], [right], recipe, {}).mismatch == ""
    sampled = torch.stack([call(torch.cat([x[:, ::2], x[:, ::2]], -1)) for x in given])
    assert outputs.compare([sampled], [right], recipe, {}).mismatch != ""


def test_the_largest_groups_tell_how_scales_grow_with_size():
    exact = torch.tensor([[1.0], [2.0], [1e-9]]).expand(3, 64).double()
    assert _share(torch.tensor([1e-7, 4e-7, 1e-7]), exact) == pytest.approx(2e-7)


@pytest.mark.parametrize("rows", range(1, 40))
def test_groups_of_one_size_and_groups_of_zeros_have_a_share_too(rows):
    for value in (0.1, 0.3, 1 / 3, 0.7, 7.7):
        assert _share(torch.full((rows,), 1e-7), torch.full((rows, 64), value).double()) > 0
    assert _share(torch.full((rows,), 1e-38), torch.zeros(rows, 64).double()) == 0


def test_as_many_whole_numbers_may_go_either_way_as_verification_found_to():
    right = torch.randint(0, 50, (4, 10_000))
    own = right.clone()
    own[0, :100] += 1
    assert _disagree(own, right, None, torch.ones(4)) != ""
    assert _disagree(own, right, None, torch.ones(4), flips=FlipTolerance(0.004, 0)) == ""
    own[1, :100] += 1
    assert _disagree(own, right, None, torch.ones(4), flips=FlipTolerance(0.004, 0)) != ""


def test_a_few_elements_may_jump_where_verification_saw_some_and_nowhere_else():
    right, scale, bounds = torch.randn(2, 64, 512), torch.full((2, 64), 1e-7), torch.full((2,), LOOSE)
    own = right.clone()
    own[1, 5, 7:9] += 1.0
    assert "times the rounding error" in _disagree(own, right, scale, bounds)
    assert _disagree(own, right, scale, bounds, flips=FlipTolerance(0.0, 1)) == ""
    own[0, 5, 7] += 1.0
    assert "times the rounding error" in _disagree(own, right, scale, bounds, flips=FlipTolerance(0.0, 1))
    own = right + 3e-3 * torch.randn_like(right)
    assert "times the rounding error" in _disagree(own, right, scale, bounds, flips=FlipTolerance(0.02, 64))
    own = right.clone()
    own[1, 5, 7] = float("nan")
    assert "NaN" in _disagree(own, right, scale, bounds, flips=FlipTolerance(0.02, 64))


def test_a_call_may_go_the_other_way_as_a_whole_but_not_call_after_call():
    scale, bounds, tolerance = torch.full((1, 1), 1e-7), torch.full((1,), LOOSE), FlipTolerance(0.0, 512)
    total = FlippedElements()

    def complaint(error: float) -> str:
        nonlocal total
        right = torch.randn(1, 1, 512)
        expected = BaselineOutput(right, scale, bounds, tolerance=tolerance)
        found = compare_with_baseline(expected, right + error, earlier=total)
        total += found.flipped
        return found.mismatch

    assert [complaint(1.0) for _ in range(2)] == ["", ""]
    assert "times the rounding error" in complaint(1.0)
    assert [complaint(0.0) for _ in range(100)] == [""] * 100
    assert complaint(1.0) == ""


def test_every_call_starts_from_its_own_draw():
    small, large = torch.full((8, 64), 1.0), torch.full((8, 64), 1000.0)
    small[0, 0] = large[0, 0] = 2.0
    trials = [made_trial("as_drawn", LOOSE, small), made_trial("zero_mean", LOOSE, large)]
    inputs = TimedInputs(
        Starts(trials, NEAR, signed=False), lambda: trials[0].arguments, secret=random.Random(3)
    )
    slots, size = place([torch.empty(8, 64)], count=16, block=0)
    memory, recipe = torch.zeros(size, dtype=torch.uint8), inputs.recipe(16)
    inputs.publish(memory, slots, recipe)
    is_large = stacked(memory, slots[0], 0, 16).flatten(1).median(1).values > 100
    assert torch.equal(is_large, recipe.bases == 1)
    assert 0 < int(is_large.sum()) < 16
    inputs.withdraw(memory, slots, recipe)
    after = stacked(memory, slots[0], 0, 16).flatten(1).median(1).values > 100
    assert torch.equal(after, recipe.bases == 0)


def test_whole_new_draws_have_no_noise():
    labels = (torch.rand(8, 64) < 0.5).float() * 2 - 1
    recipe = made_inputs(values=labels).recipe(4)
    assert (recipe.noise, len(recipe.drawn)) == ({}, 4)
    assert made_inputs().recipe(4).drawn == []


def test_draws_of_different_shapes_are_drawn_anew():
    trials = [
        made_trial("as_drawn", LOOSE, torch.randn(8, 64)),
        made_trial("as_drawn", LOOSE, torch.randn(8, 32)),
    ]
    inputs = TimedInputs(Starts(trials, AROUND, True), lambda: trials[0].arguments, secret=random.Random(3))
    assert inputs.whole_draws and inputs.redraws


@pytest.mark.parametrize(("elements", "most"), [(1 << 14, 128), (1 << 15, 32)])
def test_batches_of_inputs_that_are_drawn_anew_are_short(elements, most):
    labels = (torch.rand(elements // 64, 64) < 0.5).float() * 2 - 1
    assert made_inputs(values=labels).max_calls(4096) == most
    assert made_inputs(values=torch.randn(elements // 64, 64)).max_calls(4096) == 4096
