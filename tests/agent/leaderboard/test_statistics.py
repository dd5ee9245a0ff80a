"""Every statistic against an independent implementation: brute force, numpy or scipy."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.agent.leaderboard.board_records import Estimate
from kernelwright.agent.leaderboard.policy import FEWEST_ROWS
from kernelwright.agent.leaderboard.statistics import (
    best_at_k,
    bootstrap,
    fast_p,
    geometric_mean,
    pass_at_k,
    quantile,
    ranks,
)

SPEEDUPS = st.lists(st.one_of(st.none(), st.floats(0.01, 100)), min_size=1, max_size=30)


@given(n=st.integers(1, 9), data=st.data())
def test_pass_at_k_is_the_share_of_all_draws_with_a_right_one(n: int, data: st.DataObject) -> None:
    right, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = list(itertools.combinations([True] * right + [False] * (n - right), k))
    assert pass_at_k(n, right, k) == pytest.approx(sum(map(any, draws)) / len(draws))


@given(n=st.integers(1, 400), data=st.data())
def test_pass_at_k_agrees_with_the_published_estimator(n: int, data: st.DataObject) -> None:
    right, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    # Chen et al. 2021, "Evaluating Large Language Models Trained on Code", figure 3, by its formula.
    published = 1.0 if n - right < k else 1.0 - float(np.prod(1.0 - k / np.arange(n - right + 1, n + 1)))
    assert pass_at_k(n, right, k) == pytest.approx(published, abs=1e-9)


@given(values=st.lists(st.floats(-5, 5), min_size=1, max_size=9), data=st.data())
def test_best_at_k_is_the_mean_best_of_all_draws(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    draws = [max(draw) for draw in itertools.combinations(values, k)]
    assert best_at_k(sorted(values), k) == pytest.approx(sum(draws) / len(draws), abs=1e-9)


@given(values=st.lists(st.booleans(), min_size=1, max_size=300), data=st.data())
def test_best_at_k_of_rights_and_wrongs_is_pass_at_k(values: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    best = best_at_k(sorted(float(value) for value in values), k)
    assert best == pytest.approx(pass_at_k(len(values), sum(values), k), abs=1e-9)


@pytest.mark.parametrize("k", [0, 4])
def test_too_few_samples_are_no_estimate(k: int) -> None:
    with pytest.raises(ValueError, match="needs at least"):
        pass_at_k(3, 1, k)
    with pytest.raises(ValueError, match="needs at least"):
        best_at_k([1.0, 2.0, 3.0], k)


@given(speedups=SPEEDUPS, p=st.sampled_from([0.0, 1.0, 1.5, 2.0]))
def test_fast_p_is_the_share_of_right_and_faster_ones(speedups: list[float | None], p: float) -> None:
    is_correct = np.array([speedup is not None for speedup in speedups])
    actual = np.array([speedup or 0.0 for speedup in speedups])
    assert fast_p(speedups, p) == pytest.approx(float(np.mean(is_correct & (actual > p))))


@given(speedups=st.lists(st.floats(0.01, 100), min_size=1, max_size=50))
def test_the_geometric_mean_is_scipys(speedups: list[float]) -> None:
    assert geometric_mean(speedups) == pytest.approx(float(scipy.stats.gmean(speedups)))


def test_the_geometric_mean_of_nothing_is_none() -> None:
    assert geometric_mean([]) is None


@given(values=st.lists(st.floats(-100, 100), min_size=1, max_size=40), share=st.floats(0, 1))
def test_a_quantile_is_numpys(values: list[float], share: float) -> None:
    assert quantile(sorted(values), share) == pytest.approx(float(np.quantile(values, share)), abs=1e-9)


@pytest.mark.parametrize("size", [FEWEST_ROWS, 20, 100])
def test_the_bootstrap_interval_is_scipys(size: int) -> None:
    dice = random.Random(size)
    values = [dice.lognormvariate(0, 0.7) for _ in range(size)]
    (ours,) = bootstrap([values], samples=20_000, seed=1)
    theirs = scipy.stats.bootstrap(
        (np.array(values),), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert ours is not None
    # Two runs of 20,000 resamples differ by about a hundredth of the interval's width.
    slack = 0.04 * (theirs.high - theirs.low)
    assert ours.low == pytest.approx(theirs.low, abs=slack)
    assert ours.high == pytest.approx(theirs.high, abs=slack)


def test_the_bootstrap_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    dice = random.Random(5)
    hits = 0
    for trial in range(300):
        (interval,) = bootstrap([[dice.gauss(1.0, 1.0) for _ in range(30)]], samples=300, seed=trial)
        assert interval is not None
        hits += interval.low <= 1.0 <= interval.high
    assert 0.88 <= hits / 300 <= 0.99


def test_the_bootstrap_repeats_itself_and_declines_too_few() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    both = bootstrap([values, values], samples=100, seed=3)
    assert both == bootstrap([values], samples=100, seed=3) * 2
    assert bootstrap([values[: FEWEST_ROWS - 1]], samples=100, seed=3) == [None]
    assert bootstrap([], samples=100, seed=3) == []


def around(low: float, high: float) -> Estimate:
    return Estimate(value=low, low=low, high=high)


def test_overlapping_intervals_share_a_rank() -> None:
    top, near, far = around(2.0, 3.0), around(1.5, 2.2), around(1.0, 1.6)
    assert ranks([top, near, far]) == [1, 1, 2]
    assert ranks([top, around(1.0, 1.9), around(0.1, 0.5)]) == [1, 2, 3]
    assert ranks([top, Estimate(value=1.2), far]) == [1, 1, 2]


@given(lows=st.lists(st.tuples(st.floats(0, 10), st.floats(0, 3)), min_size=1, max_size=12))
def test_somebody_is_always_first_and_a_rank_counts_who_is_surely_better(
    lows: list[tuple[float, float]],
) -> None:
    given_ranks = ranks([around(low, low + width) for low, width in lows])
    assert min(given_ranks) == 1
    for (low, width), rank in zip(lows, given_ranks, strict=True):
        assert rank == 1 + sum(other > low + width for other, _ in lows)
    assert not any(math.isnan(rank) for rank in given_ranks)
