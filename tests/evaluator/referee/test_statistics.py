import random

from evaluator.referee.statistics import ratio_interval, spread


def test_the_interval_of_equal_sides_holds_one_about_as_often_as_it_says():
    generator = random.Random(5)
    held = 0
    for _ in range(60):
        a, b = ([generator.gauss(1.0, 0.02) for _ in range(16)] for _ in range(2))
        interval = ratio_interval(a, b)
        held += interval.low <= 1.0 <= interval.high
    assert held >= 50


def test_drift_that_both_sides_share_stays_out_of_the_interval():
    drift = [1.0 + 0.05 * turn for turn in range(12)]
    interval = ratio_interval([2 * value for value in drift], drift)
    assert interval.low > 1.5
    assert interval.high < 2.6


def test_spread_is_the_median_absolute_deviation():
    assert spread([1.0, 2.0, 3.0, 100.0]) == 1.0
