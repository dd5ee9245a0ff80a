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


def ratio_interval(numerator: Sequence[float], denominator: Sequence[float]) -> Interval:
    """95 % percentile-bootstrap interval of a ratio of medians, turns resampled in pairs.

    Pairing keeps what both sides shared in a turn (clock drift, a neighbour's load) out of the interval.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    pairs = list(zip(numerator, denominator, strict=True))
    generator = random.Random(0)
    ratios = []
    for _ in range(_RESAMPLES):
        drawn = generator.choices(pairs, k=len(pairs))
        ratios.append(median(pair[0] for pair in drawn) / max(median(pair[1] for pair in drawn), _FLOOR))
    ratios.sort()
    return Interval(low=ratios[int(0.025 * _RESAMPLES)], high=ratios[int(0.975 * _RESAMPLES) - 1])
