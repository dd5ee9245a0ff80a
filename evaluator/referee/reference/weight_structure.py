"""Finds weights that a constructor left with a structure, which training would not keep.

Random numbers have no zeros, few of them are equal, no two rows are, they are neither symmetric nor of low
rank, and their rows are not orthogonal. What has such a structure could be computed for less, so it is moved
(`parameter_noise`). Random weights stay as a seed makes them: whoever packs them when constructing may.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

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
