"""Speedups: which baseline counts where a GPU was not the reference's own."""

import random
from dataclasses import replace

import pytest

from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.claimed_time import Batch
from kernelwright.evaluator.referee.timing.speedup import BaselineFacts, measurement, needs_spread
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


def test_a_time_measured_beside_other_programs_is_contended():
    crowded = _timing([1.0] * 8).model_copy(update={"competing": 1.0})
    quiet, batch, facts = _timing([1.0] * 8), Batch("cpu", 1), replace(ALONE, process_spread=0.01)
    assert not measurement(quiet, quiet, batch, facts).contended
    assert measurement(quiet, crowded, batch, facts).contended
    taken = _timing([1.0] * 8).model_copy(update={"taken_ms": 2.0})
    assert measurement(quiet, taken, Batch("cuda", 1), facts).contended
    assert not measurement(taken, quiet, Batch("cuda", 1), facts).contended, "it is charged for that instead"
    assert measurement(quiet, quiet, batch, replace(facts, disturbed=True)).contended
    named = replace(facts, impossible={"compile": "an operator"})
    assert measurement(quiet, quiet, batch, named).impossible == {"compile": "an operator"}


def test_the_headline_is_against_the_fastest_baseline():
    eager = [2.1, 2.0, 2.2] * 8
    found = _measured(eager, replace(ALONE, solo_ms=2.1, compile_ratio=0.5))
    assert (found.against, found.speedup) == ("compile", pytest.approx(1.05))
    assert found.speedups == {"eager": pytest.approx(2.1), "compile": pytest.approx(1.05)}
    assert found.interval.low <= 1.05 <= found.interval.high < 1.2
    slower = _measured(eager, replace(ALONE, solo_ms=2.1, compile_ratio=1.5))
    assert (slower.against, slower.speedup) == ("eager", pytest.approx(2.1))


def test_the_interval_covers_the_spread_between_processes():
    eager = [2.1, 2.0, 2.2] * 8
    bare, assumed, wide = (
        _measured(eager, replace(ALONE, solo_ms=2.1, process_spread=spread)).interval
        for spread in (0.0, None, 0.05)
    )
    assert 2.0 <= bare.low <= bare.high <= 2.2
    assert wide.low < assumed.low < bare.low <= bare.high < assumed.high < wide.high
    assert wide.low < 2.1 * 0.85 < 2.1 * 1.15 < wide.high
    compiled = _measured(eager, replace(ALONE, solo_ms=2.1, compile_ratio=0.5, process_spread=0.05)).interval
    assert compiled.high / compiled.low > 1.2 * wide.high / wide.low, "a compiled baseline is two more"


def test_what_is_assumed_between_processes_is_said_to_be():
    known, assumed = _measured([2.0] * 24), _measured([2.0] * 24, replace(ALONE, process_spread=None))
    assert (known.process_spread, known.spread_assumed) == (0.002, False)
    assert (assumed.process_spread, assumed.spread_assumed) == (policy.ASSUMED_SPREAD, True)


@pytest.mark.parametrize(
    ("eager_ms", "own_ms", "queued", "needed"),
    [
        (1.0, 0.5, True, False),
        (1.0, 2.0, True, False),
        (1.0, 0.96, True, True),
        (1.0, 1.04, True, True),
        (1.0, 0.5, False, True),
        (0.09, 0.01, True, True),
        (0.11, 0.01, True, False),
    ],
)
def test_processes_are_compared_where_a_speedup_hangs_on_what_they_differ_by(
    eager_ms: float, own_ms: float, queued: bool, needed: bool
) -> None:
    facts = replace(ALONE, solo_ms=eager_ms, process_spread=None)
    found = measurement(_timing([own_ms] * 24), _timing([eager_ms] * 24), Batch("cuda", 1), facts)
    assert needs_spread(found, queued=queued) == needed


def test_a_baseline_as_slow_as_allowed_is_not_contended():
    facts = replace(ALONE, solo_spread_ms=0.0)
    assert not _measured([policy.CONTENDED_FACTOR["cuda"]] * 24, facts).contended
    assert _measured([1.001 * policy.CONTENDED_FACTOR["cuda"]] * 24, facts).contended


def test_on_a_cpu_a_time_alone_counts_only_just_after():
    """Long before, other programs may have had the cores."""
    slow, batch, candidate = _timing([1.6] * 24), Batch("cpu", 1), _timing([1.0] * 24)
    long_ago = measurement(candidate, slow, batch, ALONE)
    assert (long_ago.speedup, long_ago.contended) == (1.6, False)
    just_now = measurement(candidate, slow, batch, replace(ALONE, just_measured=True))
    assert (just_now.speedup, just_now.contended) == (1.0, True)
    usual = measurement(candidate, _timing([1.04] * 24), batch, replace(ALONE, just_measured=True))
    assert (usual.speedup, usual.contended) == (1.04, False)
