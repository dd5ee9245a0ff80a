"""Timed answers where rounding decides: how much of them may go the other way, in a call and in a duel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import torch

from kernelwright.evaluator.referee.correctness.tolerance import PEAK_FACTOR

LEEWAY: Final = 2.0
"""How many times more of timed answers than of verified ones may hang on rounding."""
_MOST_JUMPED: Final = 0.05
"""Of all elements of a duel: one decision may change all of an output, but seldom does."""
_PEAKS: Final = 4.0
"""An element jumps where it is off by what its group may be, times the root of the group's size over this."""


@dataclass(slots=True)
class FlippedElements:
    """How many elements of an output went the other way in a duel so far."""

    jumped: int = 0
    compared: int = 0


@dataclass(frozen=True, slots=True)
class FlipTolerance:
    """How much of an output may go either way, since rounding decides."""

    share: float
    """Of the elements; of whole numbers, of those that are not the usual one."""
    together: int
    """Floating elements that one decision changes at once; 0 where none jump."""
    before: FlippedElements = field(default_factory=FlippedElements)
    """What was let off so far."""

    def lets_off(self, jumped: int, compared: int) -> bool:
        """Whether so many of so many more may have gone the other way."""
        before = self.before
        before.jumped += jumped
        before.compared += compared
        least = LEEWAY * self.together
        return jumped <= max(least, self.share * compared) and (
            before.jumped <= max(least, _MOST_JUMPED * before.compared)
        )


NO_DOUBT: Final = FlipTolerance(0.0, 0)


def without_jumps(
    rows: torch.Tensor, reference: torch.Tensor, most: torch.Tensor, doubt: FlipTolerance
) -> torch.Tensor:
    """The error of each group, but for a few elements that went the other way, if there are no more.

    `most` is how far a group may be off.
    """
    difference = torch.where(reference.isfinite(), rows - reference, 0.0)
    # In a short group a few that jump by less than a peak are too much for all of it.
    peak = min(PEAK_FACTOR, max(1.0, rows.shape[-1] ** 0.5 / _PEAKS))
    jumped = difference.abs() > peak * most.unsqueeze(-1)
    if doubt.lets_off(int(jumped.count_nonzero()), rows.numel()):
        difference = torch.where(jumped, 0.0, difference)
    error: torch.Tensor = torch.linalg.vector_norm(difference, dim=-1)
    return error
