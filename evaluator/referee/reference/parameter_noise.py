"""Noise on learned parameters, element by element, so that nothing of their initial structure is left.

Experts that begin as copies of each other, rows of zeros, a kernel padded from a smaller one, a one-hot
vector or orthogonal columns differ in every trained model. Numbers move by a share of themselves and zeros by
a share of the tensor's size; signs and the order of rows stay, and what is at most one stays so, since a
scale, a boundary or a decay may need that. Weights of one bit and masks are meant as they are.
"""

from __future__ import annotations

import math

import torch
from torch.nn.parameter import is_lazy

from kernelwright.evaluator.referee.reference import policy


def takes_noise(tensor: torch.Tensor) -> bool:
    """Check for numbers, of more than eight bits, that are not all of one bit."""
    if is_lazy(tensor) or tensor.is_meta or tensor.layout is not torch.strided or tensor.numel() == 0:
        return False
    if tensor.is_complex():
        return True
    return tensor.is_floating_point() and tensor.element_size() > 1 and not _is_of_one_bit(tensor.detach())


def add_noise(tensor: torch.Tensor, seed: int) -> None:
    """Add noise to a tensor in place."""
    values = tensor.detach()
    numbers = torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
    wide = numbers.double() if numbers.dtype == torch.float64 else numbers.float()
    generator = torch.Generator(values.device).manual_seed(seed)
    drawn = torch.rand(wide.shape, generator=generator, device=wide.device, dtype=wide.dtype) * 2 - 1
    moved = _in_order(wide, drawn) if _is_ordered(wide) else _moved(wide, drawn)
    if values.is_complex():
        moved = torch.view_as_complex(moved.contiguous())
    with torch.no_grad():
        tensor.copy_(moved.to(values.dtype))


def _moved(values: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
    shift = policy.PARAMETER_NOISE * drawn
    moved = values * (1 + shift)
    # No probability and no decay goes beyond one.
    moved = torch.where((values.abs() <= 1) & (moved.abs() > 1), values * (1 - shift.abs()), moved)
    return torch.where(values == 0, _from_zero(values, drawn), moved)


def _from_zero(values: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
    """Noise for zeros, as large as a tensor's numbers are on average, and of no sign that these lack."""
    finite = torch.where(values.isfinite(), values, 0.0)
    size = float(finite.square().mean().sqrt()) or 1.0
    if not bool((values < 0).any()):
        drawn = drawn.abs()
    elif not bool((values > 0).any()):
        drawn = -drawn.abs()
    return policy.ZERO_NOISE * size * drawn


def _in_order(values: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
    """Numbers in order, each moved by less than half of the way to the next."""
    gaps = values.diff(dim=-1).abs()
    before = torch.cat([gaps[..., :1], gaps], -1)
    after = torch.cat([gaps, gaps[..., -1:]], -1)
    room = torch.minimum(before, after) * policy.ORDERED_NOISE
    moved = values + torch.minimum(room, torch.where(values == 0, room, values.abs() / 2)) * drawn
    return torch.where((values == 0) & (moved < 0) & (values >= 0).all(), -moved, moved)


def _is_ordered(values: torch.Tensor) -> bool:
    """Check that all rows ascend or descend, which random numbers would not."""
    if values.dim() == 0 or values.shape[-1] < 2:
        return False
    steps, length = values.diff(dim=-1), values.shape[-1]
    if math.lgamma(length + 1) * (values.numel() // length) < -math.log(policy.CHANCE):
        return False
    return bool((steps > 0).all() or (steps < 0).all())


def _is_of_one_bit(values: torch.Tensor) -> bool:
    """Check for two numbers, both of them frequent; the first few elements mostly tell."""
    if values.numel() < policy.FEWEST_BITS:
        return False
    first = values.flatten()[: policy.FIRST_ELEMENTS] if values.is_contiguous() else values
    for part in (first, values):
        if not bool(((part == part.max()) | (part == part.min())).all()):
            return False
    highest = int((values == values.max()).count_nonzero()) / values.numel()
    return policy.RARER_BIT <= highest <= 1 - policy.RARER_BIT
