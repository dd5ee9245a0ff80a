"""Inputs other than a problem's own: what is far out, and how far."""

from __future__ import annotations

import pytest
import torch

from kernelwright.evaluator.referee.correctness.input_distributions import (
    VARIANTS,
    Starts,
    _uniform,
    row,
    varied,
)
from kernelwright.evaluator.referee.correctness.policy import AROUND, SPIKE_SPACING

CPU = torch.device("cpu")


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


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


@pytest.mark.parametrize(("name", "changed"), [("near_duplicate", 3), ("outliers", 8)])
def test_elements_far_out_are_few_and_farther_than_all_others(name: str, changed: int) -> None:
    values = torch.rand(64, 128) + 0.5
    values[:, 0] = 0.0
    out = varied(VARIANTS[name], values, _generator())
    poked = out != values
    assert 1 <= int(poked.sum()) <= changed
    assert float(out[poked].abs().min()) >= 4.0 * float(values.max())
    assert not out[:, 0].any(), "zeros stay"


def test_variants_are_as_large_as_they_say() -> None:
    values = torch.randn(64, 128)
    large, tiny, sparse = (VARIANTS[name](values, _generator()) for name in ("large", "tiny", "sparse"))
    assert torch.equal(large, values * 16)
    assert torch.equal(tiny, values / 4096)
    kept = sparse == values
    assert 0.04 < float(kept.float().mean()) < 0.09
    assert torch.equal(sparse[~kept], values[~kept] / 256)
