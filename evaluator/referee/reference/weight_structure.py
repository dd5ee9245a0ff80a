"""Finds weights left with a structure that training would not keep, and removes it by noise.

Random numbers have no zeros, few of them are equal, no two rows are, they are neither symmetric nor of low
rank, and their rows are not orthogonal. What has such a structure could be computed for less. Random weights
stay as a seed makes them: whoever packs them when constructing may.

Experts that begin as copies of each other, rows of zeros, a kernel padded from a smaller one, a one-hot
vector or orthogonal columns differ in every trained model. Numbers move by a share of themselves and zeros by
a share of the tensor's size; signs and the order of rows stay, and what is at most one stays so, since a
scale, a boundary or a decay may need that. Weights of one bit and masks are meant as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch.nn.parameter import is_lazy

from kernelwright.evaluator.referee.reference import policy


def structured(weights: Mapping[str, torch.Tensor]) -> set[str]:
    """Names of weights that have a structure of their own, or are copies of each other."""
    found = {name for name, tensor in weights.items() if has_structure(tensor)}
    alike: dict[tuple[torch.Size, torch.dtype, complex], list[str]] = {}
    for name, tensor in weights.items():
        first = tensor.detach().flatten()[0].item()
        alike.setdefault((tensor.shape, tensor.dtype, first), []).append(name)
    for names in alike.values():
        for place, name in enumerate(names):
            found |= {
                each
                for other in names[place + 1 :]
                if torch.equal(weights[name], weights[other])
                for each in (name, other)
            }
    return found


def has_structure(weight: torch.Tensor) -> bool:
    """Check one weight, on a part of a large one."""
    values = weight.detach()
    parts = torch.view_as_real(values.resolve_conj()).unbind(-1) if values.is_complex() else (values,)
    return any(_has_structure(part) for part in parts)


def _has_structure(values: torch.Tensor) -> bool:
    if not bool(values.isfinite().all()):
        return True
    if int((values == 0).count_nonzero()) > policy.RANDOM_ZEROS * values.numel():
        return True
    return _repeats(values) or _has_equal_slices(values) or _is_of_few_directions(values)


def _repeats(values: torch.Tensor) -> bool:
    """Many of a float32 tensor's numbers are equal; narrower ones cannot help it."""
    if values.element_size() < 4:
        return False
    some = values.flatten()[: policy.COUNTED_ELEMENTS].sort().values
    return int((some.diff() == 0).count_nonzero()) > policy.RANDOM_REPEATS * some.numel()


def _has_equal_slices(values: torch.Tensor) -> bool:
    """Two slices along a dimension are equal, or one is the other's negative."""
    for dim, size in enumerate(values.shape):
        rows = values.movedim(dim, 0).reshape(size, -1)
        if size < 2 or rows.shape[1] < policy.FEWEST_COLUMNS:
            continue
        rows = rows[:, : max(policy.FEWEST_COLUMNS, policy.LOOKED_AT // size)].double()
        generator = torch.Generator(rows.device).manual_seed(rows.shape[1])
        along = torch.randn(rows.shape[1], generator=generator, device=rows.device, dtype=rows.dtype)
        sums, order = (rows @ along).abs().sort()
        near = (sums.diff() <= policy.EQUAL_SUMS * sums[-1]).nonzero()[:, 0][: policy.COMPARED_SLICES]
        one, other = rows[order[near]], rows[order[near + 1]]
        if bool(((one == other).all(1) | (one == -other).all(1)).any()):
            return True
    return False


def _is_of_few_directions(values: torch.Tensor) -> bool:
    """A block is symmetric or of low rank, or its rows or columns are orthogonal."""
    if values.dim() < 2:
        return False
    block = values.reshape(values.shape[0], -1)[: policy.BLOCK_ROWS, : policy.BLOCK_ROWS].double()
    smaller = min(block.shape)
    if smaller < policy.FEWEST_ROWS:
        return False
    square = block[:smaller, :smaller]
    if torch.equal(square, square.T) or torch.equal(square, -square.T):
        return True
    if int(torch.linalg.matrix_rank(block, rtol=policy.RANK_TOLERANCE)) < smaller:
        return True
    whole = values.reshape(values.shape[0], -1)
    rows = whole[: policy.BLOCK_ROWS].double()
    columns = whole[:, : policy.BLOCK_ROWS].double().T
    return any(map(_are_orthogonal, (rows, columns)))


def _are_orthogonal(rows: torch.Tensor) -> bool:
    """Rows, shape [rows, numbers], stand on each other more exactly than random ones do."""
    if rows.shape[0] > rows.shape[1]:
        return False
    gram = torch.nn.functional.normalize(rows, dim=-1)
    gram = (gram @ gram.T).fill_diagonal_(0.0)
    return float(gram.abs().max()) < policy.ORTHOGONAL


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
