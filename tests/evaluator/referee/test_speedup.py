"""Speedups: which baseline counts where a GPU was not the reference's own."""

import random

from kernelwright.evaluator.referee.timing.claimed_time import Batch
from kernelwright.evaluator.referee.timing.speedup import BaselineFacts, measurement
from kernelwright.evaluator.schema.evaluation import Measurement, Timing

ALONE = BaselineFacts(solo_ms=1.0, solo_spread_ms=0.002, compile_ratio=None, process_spread=0.002)


def _timing(turn_ms: list[float]) -> Timing:
    middle = sorted(turn_ms)[len(turn_ms) // 2]
    apart = sorted(abs(turn - middle) for turn in turn_ms)[len(turn_ms) // 2]
    return Timing(
        median_ms=middle,
        spread_ms=apart,
        turns=len(turn_ms),
        calls=len(turn_ms),
        outer_ms=middle,
        clock="inner",
        turn_ms=tuple(turn_ms),
    )


def _measured(eager: list[float], facts: BaselineFacts = ALONE) -> Measurement:
    return measurement(_timing([1.0] * len(eager)), _timing(eager), Batch("cuda", 1), facts)


def test_load_on_the_baselines_turns_now_and_then_gains_nothing():
    drawn = random.Random(1)
    found = _measured([drawn.choice([1.0, 1.0, 1.3, 1.5, 1.7, 2.0, 2.0]) for _ in range(24)])
    assert found.contended
    assert found.speedup == 1.0


def test_a_device_that_slowed_down_since_is_no_contention_once_that_is_known():
    slow = [1.3] * 24
    assert _measured(slow).contended
    found = _measured(slow, BaselineFacts(1.29, 0.002, None, 0.002))
    assert not found.contended
    assert found.speedup == 1.3
