"""Which clock scores, from turns as they may come: no process runs here."""

import random
from typing import cast

from evaluator.devices.cpu import CpuDevice
from evaluator.referee.clock import Clock, Lane, Schedule
from evaluator.referee.ring import Ring
from evaluator.referee.sides import Ran, Side

NOISE = random.Random(4)


def _lane(work_ms: float, *, claimed: float, wander_ms: float, turns: int = 18) -> Lane:
    """A side whose calls take `work_ms` a turn and that claims a share of it."""
    ran = [
        Ran(work_ms * claimed, work_ms + 0.2 + NOISE.uniform(0.0, wander_ms), 0.1, "", "")
        for _ in range(turns)
    ]
    side = cast(Side, None)  # nothing is asked of it
    lane = Lane(side, "time", [], [], 0, 0)
    lane.turns = ran
    return lane


def _scored(candidate: Lane, baseline: Lane) -> tuple[float, str]:
    schedule = Schedule(count=10, target_ms=20.0, max_turns=6, call_timeout_s=5.0)
    clock = Clock(CpuDevice(), cast(Ring, None), schedule, random.Random(1))
    ours, _ = clock.timing(candidate, baseline, solo_ms=0.5)
    return ours.median_ms, ours.clock


def test_an_honest_claim_scores():
    median_ms, clock = _scored(
        _lane(5.0, claimed=1.0, wander_ms=0.02), _lane(6.0, claimed=1.0, wander_ms=0.02)
    )
    assert clock == "inner"
    assert median_ms == 0.5


def test_a_claim_of_nothing_scores_by_our_clock():
    median_ms, clock = _scored(
        _lane(5.0, claimed=0.0, wander_ms=0.02), _lane(5.0, claimed=1.0, wander_ms=0.02)
    )
    assert clock == "outer"
    assert median_ms > 0.45


def test_a_noisy_machine_is_no_excuse_for_a_claim_of_nothing():
    median_ms, clock = _scored(
        _lane(5.0, claimed=0.0, wander_ms=8.0), _lane(5.0, claimed=1.0, wander_ms=40.0)
    )
    assert clock == "outer" or median_ms > 0.2


def _with_singles(lane: Lane, lone_ms: float, wander_ms: float) -> Lane:
    """Its unannounced batches of one call."""
    lane.singles = [
        Ran(lone_ms, lone_ms + 0.2 + NOISE.uniform(0.0, wander_ms), 0.1, "", "") for _ in range(6)
    ]
    return lane


def test_calls_merged_within_a_batch_score_as_they_cost_alone():
    """Ten calls together cost two thirds of ten calls alone."""
    candidate = _with_singles(_lane(7.0, claimed=1.0, wander_ms=0.02), 1.05, 0.05)
    median_ms, clock = _scored(candidate, _with_singles(_lane(10.0, claimed=1.0, wander_ms=0.02), 1.0, 0.05))
    assert clock == "single"
    assert median_ms > 1.0


def test_a_lone_call_may_cost_more_where_the_baselines_does_too():
    candidate = _with_singles(_lane(7.0, claimed=1.0, wander_ms=0.02), 1.05, 0.05)
    median_ms, clock = _scored(candidate, _with_singles(_lane(10.0, claimed=1.0, wander_ms=0.02), 1.4, 0.05))
    assert (clock, median_ms) == ("inner", 0.7)
