"""Sizes of batches, from sides as they may be: no process runs here."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import torch

from kernelwright.evaluator.referee.timing.baselines import Baselines
from kernelwright.evaluator.referee.timing.batch_size import BatchSizer
from kernelwright.evaluator.referee.timing.interleaved_timer import InterleavedTimer
from kernelwright.evaluator.referee.timing.speedup import BaselineFacts
from kernelwright.evaluator.referee.timing.timer import CandidateTimer
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.launch_gate import MOST_QUEUED, LaunchGate
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess

MOST = 4000


def _lane(*, gated: bool = True) -> CallBuffers:
    lane = CallBuffers(cast(WorkerProcess, _Side()), "time", [], [], 0, 0)
    lane.gate = LaunchGate(0, torch.zeros(1, dtype=torch.int32)) if gated else None
    return lane


class _Side:
    """Nothing is asked of it."""

    failed = False


class _Clock:
    """Calls of `call_ms`, claimed as `claimed_ms`, of which a queue holds `fits`."""

    def __init__(self, count: int, queued: bool, *, call_ms: float, claimed_ms: float, fits: int) -> None:
        self.count, self.queued = count, queued
        self._call_ms, self._claimed_ms, self._fits = call_ms, claimed_ms, fits

    def probe(self, lane: CallBuffers) -> tuple[float, bool]:
        del lane
        return self._claimed_ms, self.queued and self.count <= self._fits

    def duel(self, lane: CallBuffers, eager: CallBuffers) -> None:
        del lane, eager

    def outer_ms(self, lane: CallBuffers) -> float:
        del lane
        return self._call_ms + 0.25 / self.count


def _clocks(
    *, call_ms: float, fits: int, claimed_ms: float | None = None
) -> Callable[[int, bool], InterleavedTimer]:
    claimed_ms = call_ms if claimed_ms is None else claimed_ms

    def clock(count: int, queued: bool) -> Any:
        return _Clock(count, queued, call_ms=call_ms, claimed_ms=claimed_ms, fits=fits)

    return clock


class _Timed(CandidateTimer):
    """A timer with such clocks."""

    def __init__(self, clock: Callable[[int, bool], InterleavedTimer]) -> None:
        self._bench = cast(Any, self)
        self.clock = clock
        self.sizing = BatchSizer(clock, kind="cuda", most=MOST)

    def batches(self, lane: CallBuffers, eager: CallBuffers) -> tuple[int, bool]:
        """Calls in the batches that score, and whether they were queued."""
        known = BaselineFacts(0.01, 0.0001, None, None)
        baselines = Baselines(eager, True, known, MOST_QUEUED, eager.gate, MOST_QUEUED)
        clock, count = self._sized_duel(lane, baselines)
        return count, clock.queued


def test_short_calls_are_queued_as_many_as_may_be():
    assert _Timed(_clocks(call_ms=0.01, fits=5000)).batches(_lane(), _lane()) == (MOST_QUEUED, True)


def test_a_queue_that_holds_fewer_is_halved_down_to():
    assert _Timed(_clocks(call_ms=0.03, fits=300)).batches(_lane(), _lane()) == (MOST_QUEUED // 4, True)


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
    timed.sizing = BatchSizer(timed.clock, kind="cuda", most=5)
    assert timed.batches(_lane(), _lane()) == (5, True)


def test_who_could_queue_more_needs_more_for_our_clock():
    """Sixteen calls of 0.1 ms: a tenth of them would be within what our clock wanders."""
    count, queued = _Timed(_clocks(call_ms=0.1, fits=16)).batches(_lane(), _lane())
    assert count > 400
    assert not queued


def test_a_queue_as_long_as_the_references_is_enough():
    lane, eager = _lane(), _lane()
    assert eager.gate is not None
    eager.gate.most = eager.gate.tried = 16
    timed = _Timed(_clocks(call_ms=0.1, fits=16))
    count, queued = timed.batches(lane, eager)
    assert count > 8
    assert queued


@pytest.mark.parametrize("gated", [False, True])
def test_who_is_slower_while_its_batches_are_sized_again_and_again_gets_large_ones(gated):
    """Each duel but the last is slow enough for the next batch to stay short."""
    slow_ms = iter([20.0, 7.5, 3.5, 1.6, 0.8])
    timed = _Timed(lambda count, queued: cast(InterleavedTimer, _Staircase(count, queued, slow_ms)))
    count, _ = timed.batches(_lane(gated=gated), _lane(gated=gated))
    assert count >= 1000


class _Staircase(_Clock):
    """Ever quicker, one step a duel."""

    def __init__(self, count: int, queued: bool, slow_ms: Iterator[float]) -> None:
        super().__init__(count, queued, call_ms=0.0, claimed_ms=0.0, fits=0)
        self._slow_ms = slow_ms

    def probe(self, lane: CallBuffers) -> tuple[float, bool]:
        del lane
        return 60.0, self.queued

    def outer_ms(self, lane: CallBuffers) -> float:
        del lane
        return next(self._slow_ms, 0.01)


def test_a_queue_known_to_be_shorter_is_not_tried_again():
    probed: list[int] = []

    class Probed(_Clock):
        def probe(self, lane: CallBuffers) -> tuple[float, bool]:
            probed.append(self.count)
            return super().probe(lane)

    def clock(count: int, queued: bool) -> InterleavedTimer:
        return cast(InterleavedTimer, Probed(count, queued, call_ms=0.01, claimed_ms=0.01, fits=300))

    lane, sizing = _lane(), BatchSizer(clock, kind="cuda", most=MOST)
    assert sizing.queueable(lane, 1024) == 256
    assert sizing.queueable(lane, 1024) == 256
    assert probed == [1024, 512, 256]


def test_what_a_reference_queues_beside_one_candidate_says_nothing_of_the_next():
    eager = _lane()
    assert eager.gate is not None
    baselines = Baselines(eager, True, BaselineFacts(1.0, 0.1, None, None), 1024, eager.gate, 512)
    eager.gate.most, eager.gate = 8, None
    baselines.restore_queue()
    assert baselines.eager.gate is not None
    assert baselines.eager.gate.most == 512


def test_who_does_not_queue_gains_nothing_by_the_references_launches():
    known = BaselineFacts(1.0, 0.1, None, process_spread=0.01)
    baselines = Baselines(_lane(), True, known, 1024, None, 0)
    assert baselines.beside(True) == known
    assert baselines.beside(False).most_ms == 1.0
    assert baselines.beside(False).process_spread is None
    baselines.launched_spread = 0.1
    assert baselines.beside(False).process_spread == 0.1
    assert Baselines(_lane(), False, known, 1024, None, 0).beside(False) == known


@pytest.mark.parametrize("launched_ms", [0.01, 0.2])
def test_who_is_slower_behind_a_gate_is_not_queued(launched_ms):
    """Streams that wait for each other may do so there."""

    class Handing(_Clock):
        def probe(self, lane: CallBuffers) -> tuple[float, bool]:
            return super().probe(lane) if self.queued else (launched_ms, False)

    def clock(count: int, queued: bool) -> InterleavedTimer:
        return cast(InterleavedTimer, Handing(count, queued, call_ms=0.1, claimed_ms=0.1, fits=5000))

    lane = _lane()
    BatchSizer(clock, kind="cuda", most=MOST).settle(lane, None)
    assert (lane.gate is None) == (launched_ms < 0.09)


@pytest.mark.parametrize(("launches", "most"), [(0, MOST_QUEUED), (1, MOST_QUEUED), (6, 512), (10**6, 1)])
def test_calls_of_many_launches_are_known_not_to_fit(launches, most):
    gate = LaunchGate(0, torch.zeros(1, dtype=torch.int32))
    gate.expect(launches)
    assert gate.most == most


def test_a_candidate_is_asked_for_no_more_than_its_reference_queues():
    lane, eager = _lane(), _lane()
    assert eager.gate is not None
    eager.gate.most = 100
    assert _Timed(_clocks(call_ms=0.01, fits=5000)).batches(lane, eager) == (100, True)
    assert lane.gate is not None
    assert lane.gate.tried == 100


@pytest.mark.parametrize(
    ("call_ms", "fits", "count"), [(1.0, 64, 8), (1.0, 4, 4), (6.0, 64, 1), (0.001, 9999, 1024)]
)
def test_a_guess_at_a_queue_that_leaves_batches_short_is_put_to_the_test(call_ms, fits, count):
    """Of a recurrence, which is one launch and counted as thousands of operations."""
    lane, sizing = _lane(), BatchSizer(_clocks(call_ms=call_ms, fits=fits), kind="cuda", most=MOST)
    assert lane.gate is not None
    lane.gate.expect(10**6)
    assert sizing.grown(lane, sizing.settle(lane, None)) == count
    assert lane.gate is not None
