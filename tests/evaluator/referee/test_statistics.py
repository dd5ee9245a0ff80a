import math
import random

import pytest

from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.claimed_time import Batch
from kernelwright.evaluator.referee.timing.statistics import (
    median_absolute_deviation,
    process_spread,
    ratio_interval,
    widened,
)
from kernelwright.evaluator.schema.evaluation import Interval


def test_the_interval_of_equal_workers_holds_one_about_as_often_as_it_says():
    generator = random.Random(5)
    held = 0
    for _ in range(60):
        a, b = ([generator.gauss(1.0, 0.02) for _ in range(16)] for _ in range(2))
        interval = ratio_interval(a, b)
        held += interval.low <= 1.0 <= interval.high
    assert held >= 50


def test_drift_that_both_workers_share_stays_out_of_the_interval():
    drift = [1.0 + 0.05 * turn for turn in range(12)]
    interval = ratio_interval([2 * value for value in drift], drift)
    assert interval.low == pytest.approx(2.0)
    assert interval.high == pytest.approx(2.0)


def test_the_median_absolute_deviation_ignores_an_outlier():
    assert median_absolute_deviation([1.0, 2.0, 3.0, 100.0]) == 1.0


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_processes_that_differ_are_covered_about_as_often_as_the_widened_interval_says(kind):
    generator = random.Random(7)
    held = bare = 0
    for _ in range(300):
        times = [math.exp(generator.gauss(0.0, 0.03)) for _ in range(policy.COMPARED_PROCESSES[kind])]
        candidate = math.exp(generator.gauss(0.0, 0.03))
        theirs, ours = (
            [process * generator.gauss(1.0, 0.005) for _ in range(12)] for process in (times[0], candidate)
        )
        middle = times[0] / candidate
        interval = ratio_interval(theirs, ours)
        bare += interval.low <= 1.0 <= interval.high
        found = process_spread([time / times[0] for time in times])
        wide = widened(interval, middle, spread=policy.STUDENT_T[kind] * found, processes=2)
        held += wide.low <= 1.0 <= wide.high
    assert bare < 90
    assert held >= 270


def test_processes_that_do_not_differ_leave_the_interval_alone():
    interval = widened(Interval(low=1.9, high=2.2), 2.0, spread=0.0, processes=2)
    assert interval.low == pytest.approx(1.9)
    assert interval.high == pytest.approx(2.2)


def test_a_middle_outside_its_own_turns_interval_stays_inside_the_widened_one():
    interval = widened(Interval(low=2.1, high=2.2), 2.0, spread=0.01, processes=2)
    assert interval.low < 2.0 < interval.high


def test_a_shared_cpu_scores_by_its_quicker_quarter_and_a_gpu_by_its_median():
    turns = list(range(101))
    assert (Batch("cpu", 1).typical(turns), Batch("cuda", 1).typical(turns)) == (25, 50)
