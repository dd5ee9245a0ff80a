"""What kernels lose on small inputs that pass through numbers near one, as in `exp(x) - 1`.

That is nothing beside answers to inputs of the problem's own size, and few of the bits of small ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import torch

from kernelwright.evaluator.referee.correctness.tolerance import (
    OTHER_LIMIT,
    Expected,
    finite_or_zero,
    grouped,
    rms,
)

_SHARE: Final = 1 / 32
"""Of the usual scale: one such number takes two of it at most, and limits are many times the scale."""
_LEAST_BITS: Final = 11
"""What must be right of a small answer however that is."""
_CHUNK_GROUPS: Final = 1 << 16


def usual_scales(expected: Expected) -> list[float | None]:
    """The scale of each output as a whole."""
    return [None if scale is None else float(scale.square().mean().sqrt()) for scale in expected.scales]


def passing_through_one(expected: Expected, usual: list[float | None]) -> Expected:
    """The same with scales no less than a share of what is usual for inputs of the problem's own size."""
    scales = [
        scale if scale is None or most is None else torch.maximum(scale, _floor(exact, _SHARE * most))
        for exact, scale, most in zip(expected.exact, expected.scales, usual, strict=True)
    ]
    return replace(expected, scales=scales)


def _floor(exact: torch.Tensor, most: float) -> torch.Tensor:
    """The lowest scale of each group."""
    parts = torch.split(grouped(exact), _CHUNK_GROUPS)
    sizes = torch.cat([rms(finite_or_zero(part)) for part in parts])
    return (sizes * (2.0**-_LEAST_BITS / OTHER_LIMIT)).clamp_max(most)
