"""The numbers of a leaderboard: pure functions over speedups, each with its source."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from kernelwright.agent.leaderboard.board_records import Estimate
from kernelwright.agent.leaderboard.policy import CONFIDENCE, FEWEST_ROWS


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided 95 % interval."""

    low: float
    high: float


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; 0 of nothing."""
    return math.fsum(values) / len(values) if values else 0.0


def fast_p(speedups: Sequence[float | None], p: float) -> float:
    """Share that is correct and more than p times as fast as the baseline (KernelBench, Ouyang et al. 2025).

    None is a failure, so `fast_0` is the share that is correct.
    """
    return (
        sum(speedup is not None and speedup > p for speedup in speedups) / len(speedups) if speedups else 0.0
    )


def geometric_mean(speedups: Iterable[float]) -> float | None:
    """The geometric mean; None of nothing."""
    logs = [math.log(speedup) for speedup in speedups]
    return math.exp(mean(logs)) if logs else None


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Chance that k of n samples hold a correct one: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, unbiased).

    Raises:
        ValueError: fewer than k samples.
    """
    if not 0 < k <= n:
        raise ValueError(f"pass@{k} needs at least {k} samples, not {n}")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def best_at_k(values: Sequence[float], k: int) -> float:
    """Expected value of the best of k samples drawn from these without replacement, unbiased.

    `values` are in rising order of preference. The best of a draw is the i-th of n with chance
    C(i-1, k-1) / C(n, k), the same argument as for pass@k.

    Raises:
        ValueError: fewer than k values.
    """
    n = len(values)
    if not 0 < k <= n:
        raise ValueError(f"best@{k} needs at least {k} samples, not {n}")
    chance, expected = k / n, 0.0
    for i in range(n, k - 1, -1):
        expected += chance * values[i - 1]
        chance *= (i - k) / (i - 1) if i > 1 else 0.0
    return expected


def bootstrap(columns: Sequence[Sequence[float]], *, samples: int, seed: int) -> list[Interval | None]:
    """Percentile bootstrap interval of the mean of each column (Efron and Tibshirani 1993).

    Columns are as long as each other and resampled together, row by row. Fewer than `FEWEST_ROWS` rows
    have no interval.
    """
    size = len(columns[0]) if columns else 0
    if size < FEWEST_ROWS:
        return [None] * len(columns)
    dice, rows = random.Random(seed), range(size)
    means: list[list[float]] = [[] for _ in columns]
    for _ in range(samples):
        pick = itemgetter(*dice.choices(rows, k=size))
        for column, found in zip(columns, means, strict=True):
            found.append(sum(pick(column)) / size)
    tail = (1.0 - CONFIDENCE) / 2.0
    ordered = map(sorted, means)
    return [Interval(low=quantile(rising, tail), high=quantile(rising, 1.0 - tail)) for rising in ordered]


def quantile(rising: Sequence[float], share: float) -> float:
    """A quantile of sorted values, linear between neighbours (Hyndman and Fan 1996, type 7)."""
    place = share * (len(rising) - 1)
    below = math.floor(place)
    above = min(below + 1, len(rising) - 1)
    return rising[below] + (rising[above] - rising[below]) * (place - below)


def ranks(estimates: Sequence[Estimate]) -> list[int]:
    """Ranks: one more than the number of surely better entries.

    An interval that lies wholly above is surely better; without an interval nothing is sure. So an entry
    that overlaps the leader shares rank 1.
    """
    highs = [math.inf if one.high is None else one.high for one in estimates]
    return [1 + sum(other.low is not None and other.low > high for other in estimates) for high in highs]
