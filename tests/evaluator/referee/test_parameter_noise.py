"""Noise on weights keeps signs, bounds and orders, and leaves masks and weights of one bit alone."""

from __future__ import annotations

import pytest
import torch

from kernelwright.evaluator.referee.reference.weight_structure import add_noise, takes_noise


def _noisy(values: torch.Tensor) -> torch.Tensor:
    moved = values.clone()
    add_noise(moved, 7)
    return moved


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_element_moves_by_a_share_of_itself_and_keeps_its_sign(dtype: torch.dtype) -> None:
    values = torch.randn(64, 64).to(dtype)
    moved = _noisy(values)
    share = ((moved.double() - values.double()) / values.double()).abs()
    assert float(share.max()) <= 0.26
    assert 0.1 < float(share.square().mean().sqrt()) < 0.2
    assert torch.equal(moved.sign(), values.sign())


def test_zeros_get_a_share_of_the_tensors_size_and_no_new_sign() -> None:
    values = torch.nn.functional.pad(torch.rand(8, 3, 3) + 0.5, (2, 2, 2, 2))
    moved = _noisy(values)
    assert float(moved.min()) > 0
    assert 0.1 < float(moved[values == 0].max() / values.square().mean().sqrt()) <= 0.5
    assert bool((_noisy(torch.cat([torch.randn(9), torch.zeros(99)]))[9:] < 0).any())


def test_what_is_at_most_one_stays_so() -> None:
    assert float(_noisy(torch.linspace(0.9, 1.0, 1000)[torch.randperm(1000)]).max()) <= 1.0


@pytest.mark.parametrize("descending", [False, True])
def test_numbers_in_order_stay_in_order(descending: bool) -> None:
    values = torch.rand(4, 16).sort(-1, descending=descending).values
    moved = _noisy(values)
    assert torch.equal(moved.diff(dim=-1).sign(), values.diff(dim=-1).sign())
    assert float(moved.min()) >= 0
    assert int((moved == values).count_nonzero()) == 0
    assert float(_noisy(torch.arange(16.0)).min()) >= 0


def test_complex_numbers_move_in_both_parts() -> None:
    values = torch.zeros(64, dtype=torch.complex64)
    values[::2] = 1.0
    moved = _noisy(values)
    assert float(torch.view_as_real(moved).abs().min()) > 0


@pytest.mark.parametrize(
    ("values", "takes"),
    [
        (2.0 * (torch.arange(4096).view(64, 64) % 3 == 0) - 1.0, False),
        (torch.tril(torch.ones(64, 64)), False),
        (torch.eye(64), True),
        (torch.tensor([0.0, 0.0, 1.0]), True),
        (torch.arange(64), False),
        (torch.randn(64).to(torch.float8_e4m3fn), False),
        (torch.empty(0), False),
        (torch.randn(4, 4), True),
    ],
    ids=["one bit", "mask", "identity", "few", "whole", "eight bits", "empty", "weights"],
)
def test_masks_weights_of_one_bit_and_whole_numbers_take_none(values: torch.Tensor, takes: bool) -> None:
    assert takes_noise(values) is takes
