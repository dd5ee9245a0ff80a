"""Medians, spreads, and the interval of a ratio, within and between processes. Pure functions of turns."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import mean, median, stdev

from kernelwright.evaluator.referee.timing.policy import (
    FEWEST_UNEVEN_TURNS,
    NOISE_FACTOR,
    RESAMPLES,
    SMALLEST_TIME,
)
from kernelwright.evaluator.schema.evaluation import Interval


def median_absolute_deviation(values: Sequence[float]) -> float:
    middle = median(values)
    return median(abs(value - middle) for value in values)


def noise(values: Sequence[float]) -> float:
    """Error that chance explains of a typical value of these."""
    return NOISE_FACTOR * median_absolute_deviation(values) / math.sqrt(len(values))


def mean_excess(
    values: Sequence[float], others: Sequence[float], typical: Callable[[Sequence[float]], float]
) -> tuple[float, float]:
    """Mean beyond the typical value, as a share of that, more than others' is; and the standard error.

    Few values say nothing: their excess is 0.
    """
    if min(len(values), len(others)) < FEWEST_UNEVEN_TURNS:
        return 0.0, 0.0
    usual = [max(typical(each), SMALLEST_TIME) for each in (values, others)]
    (own, own_error), (other, other_error) = (
        (mean(each) / middle - 1, stdev(each) / math.sqrt(len(each)) / middle)
        for each, middle in zip((values, others), usual, strict=True)
    )
    return own - max(other, 0.0), math.hypot(own_error, other_error)


def quantile(values: Sequence[float], share: float) -> float:
    """Quantile, linear between neighbours.

    Source: Hyndman and Fan, Sample Quantiles in Statistical Packages, 1996, type 7.
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def ratio(numerator: Sequence[float], denominator: Sequence[float], *, share: float) -> float:
    """Ratio of the quantiles of two workers' turns."""
    return quantile(numerator, share) / max(quantile(denominator, share), SMALLEST_TIME)


def ratio_interval(
    numerator: Sequence[float], denominator: Sequence[float], *, share: float = 0.5
) -> Interval:
    """95 % percentile-bootstrap interval of a ratio of quantiles, turns resampled in pairs.

    Pairing keeps what both workers shared in a turn (clock drift, a neighbour's load) out of the interval.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    generator = random.Random(0)
    turns = range(len(numerator))
    ratios = []
    for _ in range(RESAMPLES):
        drawn = generator.choices(turns, k=len(turns))
        ratios.append(
            ratio([numerator[turn] for turn in drawn], [denominator[turn] for turn in drawn], share=share)
        )
    ratios.sort()
    return Interval(low=ratios[int(0.025 * RESAMPLES)], high=ratios[int(0.975 * RESAMPLES) - 1])


def process_spread(ratios: Sequence[float]) -> float:
    """Relative standard deviation of processes, from each one's time over the first's, the first included."""
    return stdev(math.log(max(ratio, SMALLEST_TIME)) for ratio in ratios)


def widened(interval: Interval, middle: float, *, spread: float, processes: int) -> Interval:
    """Widen an interval to cover which processes happened to be timed.

    Turns tell how sure the ratio of these very processes is. Another process of the same code runs a little
    faster or slower for as long as it lives, which no number of turns shows; `processes` of them take part in
    the ratio, each off by `spread` at most. Both parts are added as independent ones, in logarithms.
    """
    between = spread * math.sqrt(processes)
    low, high = (
        math.hypot(math.log(max(above, SMALLEST_TIME) / max(below, SMALLEST_TIME)), between)
        for above, below in ((max(middle, interval.low), interval.low), (max(interval.high, middle), middle))
    )
    return Interval(low=middle * math.exp(-low), high=middle * math.exp(high))
