"""Medians, spreads and the bootstrap interval of a ratio. Pure functions of recorded turns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median

from evaluator.evaluation import Interval

_RESAMPLES = 2000
_FLOOR = 1e-9


def spread(values: Sequence[float]) -> float:
    """Median absolute deviation."""
    middle = median(values)
    return median(abs(value - middle) for value in values)


def quantile(values: Sequence[float], share: float) -> float:
    """The value a share of the values lies below, linear between neighbours (Hyndman and Fan, type 7)."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def ratio_interval(
    numerator: Sequence[float], denominator: Sequence[float], *, share: float = 0.5
) -> Interval:
    """95 % percentile-bootstrap interval of a ratio of quantiles, turns resampled in pairs.

    Pairing keeps what both sides shared in a turn (clock drift, a neighbour's load) out of the interval.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    generator = random.Random(0)
    turns = range(len(numerator))
    ratios = []
    for _ in range(_RESAMPLES):
        drawn = generator.choices(turns, k=len(turns))
        above = quantile([numerator[turn] for turn in drawn], share)
        below = quantile([denominator[turn] for turn in drawn], share)
        ratios.append(above / max(below, _FLOOR))
    ratios.sort()
    return Interval(low=ratios[int(0.025 * _RESAMPLES)], high=ratios[int(0.975 * _RESAMPLES) - 1])
