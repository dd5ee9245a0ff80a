"""Products of timed calls: honest sums pass however long they are, narrow operands do not."""

import random
from collections.abc import Callable
from functools import cache

import numpy
import pytest
import torch

from kernelwright.evaluator.ipc.tensor_layout import place, stacked
from kernelwright.evaluator.referee.correctness.comparison import BaselineOutput, compare_with_baseline
from kernelwright.evaluator.referee.correctness.discontinuities import FlippedElements
from kernelwright.evaluator.referee.correctness.limits import limit
from kernelwright.evaluator.referee.correctness.op_trace import trace_call
from kernelwright.evaluator.referee.timing.timed_inputs import ComparedCall, InputRecipe, TimedInputs
from kernelwright.evaluator.referee.timing.timed_outputs import TimedOutputs
from tests.evaluator.referee.references import pool_of, reference_of

LENGTHS = (64, 4096, 131072)
PRODUCT = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.randn(4, {0}), torch.randn({0}, 32)]
"""


def _disagree(own, right, scale, bounds):
    expected = BaselineOutput(right, scale, bounds)
    return compare_with_baseline(expected, own, earlier=FlippedElements()).mismatch


@cache
def _timed_products(length: int) -> tuple[TimedOutputs, InputRecipe, list[torch.Tensor], list[torch.Tensor]]:
    """Compare products of this many terms; two timed calls' operands."""
    pool = pool_of(PRODUCT.format(length), 1)
    inputs = TimedInputs(
        pool.starts(),
        pool.fresh,
        secret=random.Random(2),
    )
    slots, size = place([torch.empty(4, length), torch.empty(length, 32)], count=2, block=0)
    memory, recipe = torch.zeros(size, dtype=torch.uint8), inputs.recipe(2)
    inputs.publish(memory, slots, recipe)
    left, right = (list(stacked(memory, slot, 0, 2)) for slot in slots)
    outputs = TimedOutputs(inputs, limit=limit("fp32", zero_mean=False, terms=pool.trace.terms))
    return outputs, recipe, left, right


def _complaint(
    length: int, product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], *, share: float = 1.0
) -> str:
    """What is wrong with a product's timed answers, held to a share of what is allowed."""
    outputs, recipe, left, right = _timed_products(length)
    exact, own = (
        torch.stack([multiply(a, b) for a, b in zip(left, right, strict=True)])
        for multiply in (torch.matmul, product)
    )
    calls = slice(0, recipe.count)
    bounds = outputs._allowed(recipe, calls, exact.dtype) * share
    return _disagree(own, exact, outputs._scale(outputs._leaves[0], recipe, calls), bounds)


def _changed(
    length: int,
    product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    *,
    reference: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = torch.matmul,
    forward: str = "a @ b",
) -> str:
    """What is wrong with how a product's timed answers change between nearby inputs."""
    source = PRODUCT.format(length).replace("a @ b", forward)
    pool = pool_of(source, 1)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(2))
    outputs = TimedOutputs(inputs, limit=1e6, change=pool.trace.terms)
    slots, size = place([torch.empty(4, length), torch.empty(length, 32)], count=4, block=0)
    memory, recipe, found = torch.zeros(size, dtype=torch.uint8), inputs.recipe(4), ""
    for _ in range(2):
        inputs.publish(memory, slots, recipe)
        left, right = (list(stacked(memory, slot, 0, 4)) for slot in slots)
        own, exact = (
            torch.stack([multiply(a, b) for a, b in zip(left, right, strict=True)])
            for multiply in (product, reference)
        )
        found = found or outputs._compare_change([own], [exact], recipe.near)
        recipe = inputs.recipe(4, ComparedCall(recipe, 1, [own[1]], [exact[1]]))
    return found


def _two_terms(values: torch.Tensor) -> torch.Tensor:
    high = values.bfloat16().float()
    return high + (values - high).bfloat16().float()


def _narrow(values: torch.Tensor) -> torch.Tensor:
    """Rounded to the ten bits of mantissa that TF32 and half precision have."""
    return (values.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)


def _one_after_another(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    terms = (a.unsqueeze(-1) * b).numpy()
    return torch.from_numpy(numpy.add.accumulate(terms, axis=1, dtype=numpy.float32)[:, -1])


@pytest.mark.parametrize("length", LENGTHS)
def test_narrow_operands_are_found_when_timed_however_long_the_sum(length):
    assert "nearby inputs" in _changed(length, lambda a, b: _narrow(a) @ _narrow(b))
    assert "nearby inputs" in _changed(length, lambda a, b: _narrow(a) @ b)


@pytest.mark.parametrize("length", LENGTHS[:2])
def test_two_bfloat16_terms_are_found_when_timed(length):
    assert "nearby inputs" in _changed(length, lambda a, b: _two_terms(a) @ _two_terms(b))


WHOLE_DRAWS = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, a, b, {0}):
        return {1}
def get_inputs():
    return [torch.randn(4, 512), torch.randn(512, 32), {2}]
"""


@pytest.mark.parametrize(
    ("name", "forward", "drawn", "whole"),
    [
        ("rows", "(a @ b)[rows]", "torch.randint(0, 4, (9,))", False),
        ("phase", "torch.view_as_real((a @ b) * phase)", "torch.randn(4, 1, dtype=torch.complex64)", True),
    ],
)
def test_nearby_calls_are_made_of_inputs_that_are_drawn_anew(name, forward, drawn, whole):
    source = WHOLE_DRAWS.format(name, forward, drawn)
    pool = pool_of(source, 1)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(2))
    assert (inputs.whole_draws, inputs.redraws) == (whole, True)
    leaves = pool.bases[0].arguments.leaves
    assert inputs.recipe(8, ComparedCall(inputs.recipe(8), 3, [], [])).near is None, "rows would come again"
    slots, size = place(leaves, count=16, block=0)
    memory, first = torch.zeros(size, dtype=torch.uint8), inputs.recipe(16)
    inputs.publish(memory, slots, first)
    before = [stacked(memory, slot, 0, 16)[3].clone() for slot in slots]
    second = inputs.recipe(16, ComparedCall(first, 3, [], []))
    assert second.near is not None
    inputs.publish(memory, slots, second)
    after = [stacked(memory, slot, 0, 16)[second.near.call].clone() for slot in slots]
    again = inputs.arguments(second, second.near.call).leaves
    for old, new, made in zip(before, after, again, strict=True):
        assert torch.equal(new, made)
        if old.is_floating_point():
            assert not torch.equal(old, new)
            # Few stand out, and move by more.
            assert ((old - new).abs() <= 2.0**-6 * old.abs()).double().mean() > 0.98
        else:
            assert torch.equal(old, new)


SIGNS = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.randint(0, 2, (4, 512)) * 2.0 - 1, torch.randint(0, 2, (512, 32)) * 2.0 - 1]
"""


def test_no_call_is_near_where_no_input_moves():
    """It would be the earlier one again."""
    pool = pool_of(SIGNS, 1)
    inputs = TimedInputs(
        pool.starts(),
        pool.fresh,
        secret=random.Random(2),
        may_be_near=any(trial.near is not None for trial in pool.draws[0].trials),
    )
    assert inputs.whole_draws
    assert inputs.recipe(32, ComparedCall(inputs.recipe(32), 1, [], [])).near is None


def test_no_call_is_near_where_inputs_could_leave_their_domain():
    pool = pool_of(PRODUCT.format(64), 1)
    for may_be_near in (False, True):
        inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(2), may_be_near=may_be_near)
        recipe = inputs.recipe(16, ComparedCall(inputs.recipe(16), 1, [], []))
        assert (recipe.near is not None) == may_be_near


@pytest.mark.parametrize("length", LENGTHS)
def test_honest_changes_stay_inside_when_timed(length):
    assert _changed(length, _one_after_another) == ""
    assert _changed(length, lambda a, b: (a.double() @ b.double() * (1 + 2.0**-17)).float()) == ""


def test_changes_of_complex_outputs_are_compared_in_parts():
    both = "torch.complex(a @ b, a @ -b)"

    def exact(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.complex(a @ b, a @ -b)

    assert _changed(64, exact, reference=exact, forward=both) == ""
    narrow = _changed(64, lambda a, b: exact(_narrow(a), b), reference=exact, forward=both)
    assert "nearby inputs" in narrow


@pytest.mark.parametrize("length", LENGTHS)
def test_honest_sums_stay_far_inside_when_timed(length):
    assert _complaint(length, _one_after_another, share=1 / 6) == ""
    assert _complaint(length, lambda a, b: (a.double() @ b.double()).float(), share=1 / 6) == ""


def test_what_is_summed_up_after_a_product_may_err_as_sums_do():
    product = reference_of(PRODUCT.format(64))
    summed = reference_of(PRODUCT.format(64).replace("a @ b", "(a @ b).mean()").replace("(4,", "(4096,"))
    few, many = (
        trace_call(reference, reference.model(1), reference.inputs(1)).terms
        for reference in (product, summed)
    )
    assert (few.products, few.sums) == (64, 1)
    assert many.products == 64
    assert many.sums > 1000 * few.products
