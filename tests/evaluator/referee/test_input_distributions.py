"""Inputs other than a problem's own: what is far out, and how far."""

from __future__ import annotations

import pytest
import torch

from kernelwright.evaluator.referee.correctness.input_distributions import (
    _CACHED_ELEMENTS,
    VARIANTS,
    Starts,
    _uniform,
    harden,
    has_one_sign,
    row,
    varied,
)
from kernelwright.evaluator.referee.correctness.policy import AROUND, SPIKE_SPACING

CPU = torch.device("cpu")


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


@pytest.mark.parametrize(
    ("values", "one"),
    [
        (torch.relu, True),
        (torch.nn.functional.silu, True),
        (torch.nn.functional.gelu, True),
        (lambda drawn: drawn - 4, True),
        (lambda drawn: drawn + 0.1, False),
        (lambda drawn: drawn, False),
        (lambda drawn: drawn[:16].abs(), False),
    ],
)
def test_inputs_with_little_of_a_sign_have_one(values, one) -> None:
    drawn = torch.randn(1 << 16, generator=_generator())
    assert has_one_sign([values(drawn)]) == has_one_sign([-values(drawn)]) == one


@pytest.mark.parametrize(
    ("longest", "elements"), [(16, SPIKE_SPACING[0]), (1000, 1000), (1 << 20, SPIKE_SPACING[1])]
)
def test_one_element_a_row_stands_out_within_bounds(longest: int, elements: int) -> None:
    assert row([torch.randn(2, 4), torch.randn(1, longest), torch.tensor(1.0)]) == elements


def test_factors_have_both_signs_and_are_neither_zero_nor_beyond_their_bounds() -> None:
    drawn = _uniform(1 << 20, _generator(), CPU)
    assert float(drawn.abs().max()) <= 1.0
    assert float(drawn.abs().min()) > 0.0
    assert abs(float(drawn.mean())) < 0.01
    assert abs(float(drawn.abs().mean()) - 0.5) < 0.01
    factors = Starts([], AROUND, signed=False).factors((1 << 16,), _generator(), CPU)
    assert AROUND[0] <= float(factors.min()) < float(factors.max()) <= AROUND[1] + 1e-6


def test_hard_values_are_the_same_whether_they_are_made_in_pieces_or_at_once() -> None:
    values = torch.randn(3, _CACHED_ELEMENTS // 2 + 5)
    across = values.clone().t().contiguous().t()
    assert not across.is_contiguous(), "such values are made at once"
    for each in (values, across):
        harden(each)
    assert torch.equal(values, across)


def test_hard_values_lose_most_in_every_position_of_the_bits_that_are_lost() -> None:
    before = torch.arange(1 << 16, dtype=torch.int32) + (0x3F80 << 16)
    after = before.clone()
    harden(after.view(torch.float32))
    behind = torch.where(before >> 6 & 1 == 1, 0b1000, 0b0111)
    assert torch.equal(after >> 3 & 0b1111, behind), "nearly half a unit of the third term"
    assert torch.equal(after >> 14 & 0b11, torch.ones_like(after)), "the second term is as large as it gets"
    kept = ~0b1100_0000_0111_1000
    assert torch.equal(after & kept, before & kept)


@pytest.mark.parametrize(("name", "changed"), [("near_duplicate", 3), ("outliers", 8)])
def test_elements_far_out_are_few_and_farther_than_all_others(name: str, changed: int) -> None:
    values = torch.rand(64, 128) + 0.5
    values[:, 0] = 0.0
    out = varied(VARIANTS[name], values, _generator())
    poked = out != values
    assert 1 <= int(poked.sum()) <= changed
    assert float(out[poked].abs().min()) >= 4.0 * float(values.max())
    assert not out[:, 0].any(), "zeros stay"


@pytest.mark.parametrize("shape", [(4, 64, 32), (1, 64, 32), (64, 32)])
def test_signs_of_large_values_last_along_the_last_dimension_or_all_others(shape: tuple[int, ...]) -> None:
    values = torch.randn(shape)
    signs = VARIANTS["large"](values, _generator()).sign()
    halves = signs.chunk(2, dim=1 if shape[0] == 1 else 0)
    last = [torch.equal(half, half[..., :1].expand_as(half)) for half in halves]
    others = [torch.equal(half, half.reshape(-1, shape[-1])[:1].expand_as(half)) for half in halves]
    assert sorted(zip(last, others, strict=True)) == [(False, True), (True, False)]
    assert torch.equal(VARIANTS["large"](values.abs(), _generator()), values.abs() * 16)


def test_few_zeros_of_large_values_are_small_and_no_two_alike() -> None:
    values = torch.randn(64, 128)
    values[3, :2] = 0.0
    large = VARIANTS["large"](values, _generator())
    first, second = large[3, :2].abs()
    assert 0 < first != second > 0
    assert max(first, second) <= 16 * values[values != 0].abs().min()
    values[:, :2] = 0.0
    assert not VARIANTS["large"](values, _generator())[:, :2].any(), "more of them mean something"


def test_variants_are_as_large_as_they_say() -> None:
    values = torch.randn(64, 128)
    large, tiny, sparse = (VARIANTS[name](values, _generator()) for name in ("large", "tiny", "sparse"))
    assert torch.equal(large.abs(), values.abs() * 16)
    assert torch.equal(tiny, values / 4096)
    kept = sparse == values
    assert 0.04 < float(kept.float().mean()) < 0.09
    smaller = (sparse[~kept] / values[~kept]).log2()
    assert -8 <= float(smaller.min()) < -7
    assert -1 < float(smaller.max()) <= 0
