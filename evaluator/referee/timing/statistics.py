"""Medians, spreads, and the interval of a ratio, within and between processes. Pure functions of turns."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import median, stdev
from typing import Final

from kernelwright.evaluator.schema.evaluation import Interval

_RESAMPLES = 2000
_FLOOR = 1e-9
PROCESSES: Final = 4
"""Processes of a reference that are compared: how much they differ is a spread of so many values."""
_STUDENT: Final = 3.182
"""97.5 % quantile of Student's t for one degree of freedom less than `PROCESSES`."""


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


def process_spread(ratios: Sequence[float]) -> float:
    """Relative standard deviation of processes, from each one's time over the first's, the first included."""
    return stdev(math.log(max(ratio, _FLOOR)) for ratio in ratios)


def widened(interval: Interval, middle: float, *, spread: float, processes: int) -> Interval:
    """An interval that also covers which processes happened to be timed.

    Turns tell how sure the ratio of these very processes is. Another process of the same code runs a little
    faster or slower for as long as it lives, which no number of turns shows; `processes` of them take part in
    the ratio, each off by `spread`. Both parts are added as independent ones, in logarithms.
    """
    between = _STUDENT * spread * math.sqrt(processes)
    low, high = (
        math.hypot(math.log(max(above, _FLOOR) / max(below, _FLOOR)), between)
        for above, below in ((max(middle, interval.low), interval.low), (max(interval.high, middle), middle))
    )
    return Interval(low=middle * math.exp(-low), high=middle * math.exp(high))
