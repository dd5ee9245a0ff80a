"""Structure of an input beyond its values, which variations of it must keep.

Masks and labels, boundaries in order, a triangular matrix' zeros, symmetry, rows that say everything twice,
as tables of rotary embeddings do: a candidate may rely on each.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from kernelwright.evaluator.ipc.model_init import direction
from kernelwright.evaluator.referee.reference import policy

Keeper = Callable[[torch.Tensor], torch.Tensor]
"""Gives other values of an input's shape its symmetry or its repetition."""


def computable(values: torch.Tensor) -> torch.Tensor:
    """The values in a type that torch adds and looks at: it does little with eight bits."""
    return values.float() if values.element_size() == 1 else values


def variable(leaf: torch.Tensor) -> bool:
    """Floating, not empty, no mask and no labels (zeros, ones and minus ones), and not sorted.

    Of eight bits neither: torch does no arithmetic with them, and too few of them stay apart.
    """
    if not leaf.is_floating_point() or leaf.numel() == 0 or leaf.element_size() == 1:
        return False
    # The first few mostly tell.
    if _labels(leaf.flatten()[: policy.FIRST_ELEMENTS]) and _labels(leaf):
        return False
    return not _ordered(leaf)


def symmetric(leaf: torch.Tensor) -> bool:
    """Return whether it holds matrices that equal their transpose."""
    if leaf.dim() < 2 or leaf.shape[-1] != leaf.shape[-2] or leaf.shape[-1] < 2:
        return False
    return torch.equal(leaf, leaf.mT)


def mirrored(values: torch.Tensor) -> torch.Tensor:
    """Matrices whose lower triangle repeats the upper one."""
    return values.triu() + values.triu(1).mT


def keeper(leaf: torch.Tensor) -> Keeper:
    """A function that gives other values the input's symmetry, or its repetition along rows."""
    if symmetric(leaf):
        return mirrored
    size = leaf.shape[-1] if leaf.dim() else 0
    if size < policy.FEWEST_REPEATED or size % 2 or leaf.numel() == 0:
        return _as_they_are
    rows = leaf.reshape(-1, size)
    for keep in (_half_repeated, _pairwise_repeated):
        # One number all along says nothing; the first row mostly tells.
        if _is_kept(keep, rows[:1]) and _is_kept(keep, rows) and not torch.equal(rows, rows.roll(1, -1)):
            return keep
    return _as_they_are


def _is_kept(keep: Keeper, rows: torch.Tensor) -> bool:
    return torch.equal(keep(rows), rows)


def _as_they_are(values: torch.Tensor) -> torch.Tensor:
    return values


def _half_repeated(values: torch.Tensor) -> torch.Tensor:
    half = values[..., : values.shape[-1] // 2]
    return torch.cat([half, half], -1)


def _pairwise_repeated(values: torch.Tensor) -> torch.Tensor:
    return values[..., ::2].repeat_interleave(2, -1)


def kept_in_order(first: list[torch.Tensor], draw: Callable[[], list[torch.Tensor]]) -> frozenset[int]:
    """Inputs with few numbers that every draw has in order, which variations would break.

    They are those of `first` that ascend, or descend, in every row of it and of as many draws as rule out
    chance; none is drawn where none does, and two random numbers are found out after a few.
    """
    chances = {
        index: _chance(leaf)
        for index, leaf in enumerate(first)
        if variable(leaf) and leaf.dim() and leaf.shape[-1] < policy.FEWEST_ORDERED and direction(leaf)
    }
    found = {index for index, chance in chances.items() if chance <= policy.CHANCE}
    open_ = chances.keys() - found
    for _ in range(policy.MAX_DRAWS):
        if not open_:
            break
        leaves = draw()
        for index in sorted(open_):
            before, leaf = first[index], leaves[index]
            if torch.equal(leaf, before):
                open_.remove(index)
                found |= {index} if chances[index] <= policy.CHANCE_IF_CONSTANT else set()
            elif direction(leaf) != direction(before):
                open_.remove(index)
            else:
                chances[index] *= _chance(leaf) / 2
                if chances[index] <= policy.CHANCE:
                    open_.remove(index)
                    found.add(index)
    return frozenset(found)


def _chance(leaf: torch.Tensor) -> float:
    length = leaf.shape[-1]
    return 2 * math.pow(math.factorial(length), -(leaf.numel() // length))


def _labels(values: torch.Tensor) -> bool:
    return bool(((values == 0) | (values.abs() == 1) | values.isinf()).all())


def _ordered(leaf: torch.Tensor) -> bool:
    if leaf.dim() == 0 or leaf.shape[-1] < policy.FEWEST_ORDERED:
        return False
    first = leaf.reshape(-1, leaf.shape[-1])[:1]
    return _sorted(first) and _sorted(leaf)


def _sorted(rows: torch.Tensor) -> bool:
    steps = rows.diff(dim=-1)
    return bool((steps >= 0).all()) or bool((steps <= 0).all())
