"""Sizes of batches, from sides as they may be: no process runs here."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch

from evaluator.referee.clock import Clock
from evaluator.referee.gate import MOST_QUEUED, Gate
from evaluator.referee.sides import Side
from evaluator.referee.sizing import Sizing
from evaluator.referee.timing import Timer
from evaluator.referee.visits import Lane

MOST = 4000


def _lane(*, gated: bool = True) -> Lane:
    lane = Lane(cast(Side, _Side()), "time", [], [], 0, 0)
    lane.gate = Gate(0, torch.zeros(1, dtype=torch.int32)) if gated else None
    return lane


class _Side:
    """Nothing is asked of it."""

    failed = False


class _Clock:
    """Calls of `call_ms`, claimed as `claimed_ms`, of which a queue holds `fits`."""

    def __init__(self, count: int, queued: bool, *, call_ms: float, claimed_ms: float, fits: int) -> None:
        self.count, self.queued = count, queued
        self._call_ms, self._claimed_ms, self._fits = call_ms, claimed_ms, fits

    def probe(self, lane: Lane) -> tuple[float, bool]:
        del lane
        return self._claimed_ms, self.queued and self.count <= self._fits

    def duel(self, lane: Lane, eager: Lane) -> None:
        del lane, eager

    def outer_ms(self, lane: Lane) -> float:
        del lane
        return self._call_ms + 0.25 / self.count


def _clocks(*, call_ms: float, fits: int, claimed_ms: float | None = None) -> Callable[[int, bool], Clock]:
    claimed_ms = call_ms if claimed_ms is None else claimed_ms

    def clock(count: int, queued: bool) -> Any:
        return _Clock(count, queued, call_ms=call_ms, claimed_ms=claimed_ms, fits=fits)

    return clock


class _Timed(Timer):
    """A timer with such clocks."""

    def __init__(self, clock: Callable[[int, bool], Clock]) -> None:
        self._bench = cast(Any, self)
        self.clock = clock
        self.sizing = Sizing(clock, kind="cuda", most=MOST)

    def batches(self, lane: Lane, eager: Lane) -> tuple[int, bool]:
        """Calls in the batches that score, and whether they were queued."""
        clock, count = self._sized_duel(lane, eager, 0.01)
        return count, clock.queued


def test_short_calls_are_queued_as_many_as_may_be():
    assert _Timed(_clocks(call_ms=0.01, fits=5000)).batches(_lane(), _lane()) == (MOST_QUEUED, True)


def test_a_queue_that_holds_fewer_is_halved_down_to():
    assert _Timed(_clocks(call_ms=0.01, fits=300)).batches(_lane(), _lane()) == (MOST_QUEUED // 4, True)


def test_who_waits_for_the_device_is_not_queued():
    lane = _lane()
    count, queued = _Timed(_clocks(call_ms=0.05, fits=0)).batches(lane, _lane())
    assert (count, queued, lane.gate) == (1000, False, None)


@pytest.mark.parametrize("claimed_ms", [0.005, 1e-6])
def test_short_queues_do_not_make_batches_our_clock_says_nothing_of(claimed_ms):
    """Eight calls of 5 µs: a claim of nothing would be within what our clock wanders."""
    timed = _Timed(_clocks(call_ms=0.005, fits=8, claimed_ms=claimed_ms))
    count, queued = timed.batches(_lane(), _lane())
    assert not queued
    assert count * 0.005 >= 15


def test_both_are_queued_or_neither():
    lane = _lane()
    count, queued = _Timed(_clocks(call_ms=0.05, fits=5000)).batches(lane, _lane(gated=False))
    assert (count, queued, lane.gate) == (1000, False, None)


def test_a_batch_that_memory_keeps_short_is_queued_all_the_same():
    timed = _Timed(_clocks(call_ms=0.1, fits=5000))
    timed.sizing = Sizing(timed.clock, kind="cuda", most=5)
    assert timed.batches(_lane(), _lane()) == (5, True)
