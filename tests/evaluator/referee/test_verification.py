"""What verification puts in place of outputs before a call."""

from __future__ import annotations

import pytest
import torch

from kernelwright.evaluator.referee.correctness.verification import poison

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
