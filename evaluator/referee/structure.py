"""What a problem's author means by an input beyond its values, so that variations of it keep it.

Masks and labels, boundaries in order, a triangular matrix' zeros, symmetry: a candidate may rely on each.
"""

from __future__ import annotations

from typing import Final

import torch

_GLANCE: Final = 1024
_FEWEST_ORDERED: Final = 8
"""Numbers that are not in order by chance."""


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
    if _labels(leaf.flatten()[:_GLANCE]) and _labels(leaf):
        return False
    return not _ordered(leaf)


def symmetric(leaf: torch.Tensor) -> bool:
    """Whether it holds matrices that equal their transpose."""
    if leaf.dim() < 2 or leaf.shape[-1] != leaf.shape[-2] or leaf.shape[-1] < 2:
        return False
    return torch.equal(leaf, leaf.mT)


def mirrored(values: torch.Tensor) -> torch.Tensor:
    """Matrices whose lower triangle repeats the upper one."""
    return values.triu() + values.triu(1).mT


def _labels(values: torch.Tensor) -> bool:
    return bool(((values == 0) | (values.abs() == 1) | values.isinf()).all())


def _ordered(leaf: torch.Tensor) -> bool:
    """Whether every row ascends or descends."""
    if leaf.dim() == 0 or leaf.shape[-1] < _FEWEST_ORDERED:
        return False
    first = leaf.reshape(-1, leaf.shape[-1])[:1]
    if not _sorted(first):
        return False
    return _sorted(leaf)


def _sorted(rows: torch.Tensor) -> bool:
    steps = rows.diff(dim=-1)
    return bool((steps >= 0).all()) or bool((steps <= 0).all())
