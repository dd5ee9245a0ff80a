"""What one side takes longer than the other, and how much of that may be chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kernelwright.evaluator.referee.timing.statistics import quantile, spread

_NOISE_FACTOR: Final = 4.0
_MANY: Final = 12
"""Values whose spread says how far they wander; of fewer, the best stands against the worst."""


@dataclass(frozen=True, slots=True)
class TimeExcess:
    """A difference between two sides, milliseconds."""

    value: float
    noise: float
    """What it may be by chance."""

    def beyond(self, floor: float) -> float:
        """All of it where it exceeds a floor and noise, else nothing."""
        return self.value if self.value > floor + self.noise else 0.0


@dataclass(frozen=True, slots=True)
class CallTimes:
    """What calls of one side took by one clock, milliseconds a call."""

    batched: Sequence[float]
    """Of each batch."""
    alone: Sequence[float]

    def cost_alone(self, share: float, *, of_alone: float) -> float:
        """What a lone call costs beyond a batched one; shares lie below what is taken of the values."""
        return quantile(self.alone, of_alone) - quantile(self.batched, share)


def error(values: Sequence[float]) -> float:
    """How far a typical value of these may be off by chance."""
    return _NOISE_FACTOR * spread(values) / math.sqrt(len(values))


def longer(ours: Sequence[float], theirs: Sequence[float], *, share: float) -> TimeExcess:
    """How much longer something takes for us; `share` of the values lie below the typical one."""
    return TimeExcess(quantile(ours, share) - quantile(theirs, share), error(ours) + error(theirs))


def merged(ours: CallTimes, theirs: CallTimes, *, share: float) -> TimeExcess:
    """How much more a lone call costs us beyond what it costs them: work that a batch does only once.

    Merged work costs every lone call in full. Both sides were called in turns, so what they shared cancels.
    """
    if len(ours.alone) < _MANY:
        worst = max(theirs.cost_alone(share, of_alone=1.0), 0.0)
        return TimeExcess(ours.cost_alone(share, of_alone=0.0) - worst, 0.0)
    value = ours.cost_alone(share, of_alone=share) - max(theirs.cost_alone(share, of_alone=share), 0.0)
    pairs = ((ours.alone, theirs.alone), (ours.batched, theirs.batched))
    return TimeExcess(value, sum(error([a - b for a, b in zip(*pair, strict=True)]) for pair in pairs))
