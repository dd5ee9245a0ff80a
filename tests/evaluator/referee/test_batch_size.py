"""Sizes of batches, from workers as they may be: no process runs here."""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from kernelwright.evaluator.referee.timing.baseline.baseline_timer import _few
from kernelwright.evaluator.referee.timing.baseline.measured_baselines import Baselines
from kernelwright.evaluator.referee.timing.batch_size import BatchSizer, queued_batch_size
from kernelwright.evaluator.referee.timing.candidate_timer import CandidateTimer
from kernelwright.evaluator.referee.timing.claimed_time import Batch, PairedTurns, Turn
from kernelwright.evaluator.referee.timing.speedup import BaselineFacts
from kernelwright.evaluator.referee.timing.timing_loop import InterleavedTimer
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.launch_gate import MAX_QUEUED_CALLS, LaunchGate
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess

MOST = 4000


def _buffers(*, gated: bool = True) -> CallBuffers:
    buffers = CallBuffers(cast(WorkerProcess, _Worker()), "time", [], [], 0, 0)
    buffers.queue_behind(LaunchGate(0, torch.zeros(1, dtype=torch.int32)) if gated else None)
    return buffers


class _Worker:
    """Nothing is asked of it."""

    lost = failed = False

    def forget_failure(self) -> None:
        pass


class _Timer:
    """Calls of `call_ms`, claimed as `claimed_ms`, of which a queue holds `fits`."""

    def __init__(self, count: int, queued: bool, *, call_ms: float, claimed_ms: float, fits: int) -> None:
        self.count, self.queued = count, queued
        self._call_ms, self._claimed_ms, self._fits = call_ms, claimed_ms, fits

    def probe(self, buffers: CallBuffers) -> tuple[float, bool]:
        del buffers
        return self._claimed_ms, self.queued and self.count <= self._fits

    def compare(self, candidate: CallBuffers, eager: CallBuffers) -> PairedTurns:
        del candidate, eager
        turns = PairedTurns(Batch("cuda", self.count, queued=self.queued))
        batch_ms = self.batch_ms()
        turns.add_batch(Turn(batch_ms, batch_ms, batch_ms), Turn(1.0, 1.0, 1.0))
        return turns

    def add_lone_calls(self, turns: PairedTurns, candidate: CallBuffers, eager: CallBuffers) -> None:
        """A GPU's lone calls come between its batches."""

    def take_kept(self) -> list[object]:
        return []

    def batch_ms(self) -> float:
        return self.count * self._call_ms + 0.25


def _timers(
    *, call_ms: float, fits: int, claimed_ms: float | None = None, kind: type[_Timer] = _Timer
) -> Callable[[int, bool], InterleavedTimer]:
    claimed_ms = call_ms if claimed_ms is None else claimed_ms

    def timer(count: int, queued: bool) -> Any:
        return kind(count, queued, call_ms=call_ms, claimed_ms=claimed_ms, fits=fits)

    return timer


def _noting(probed: list[int]) -> type[_Timer]:
    class Probed(_Timer):
        def probe(self, buffers: CallBuffers) -> tuple[float, bool]:
            probed.append(self.count)
            return super().probe(buffers)

    return Probed


def _baselines(
    eager: CallBuffers, queued: bool, known: BaselineFacts, count: int, gate: LaunchGate | None, capacity: int
) -> Baselines:
    return Baselines(eager.worker, queued, known, count, gate, capacity, eager)


class _Timed(CandidateTimer):
    """A candidate timer with such timers."""

    def __init__(self, timer: Callable[[int, bool], InterleavedTimer]) -> None:
        self._session = cast(Any, self)
        driver = SimpleNamespace(step=lambda name: contextlib.nullcontext())
        self.context = SimpleNamespace(driver=driver)
        self._kept = []
        self.timer = timer
        self.sizer = BatchSizer(timer, kind="cuda", most=MOST)

    def batches(self, candidate: CallBuffers, eager: CallBuffers) -> tuple[int, bool]:
        """Calls in the batches that score, and whether they were queued."""
        known = BaselineFacts(0.01, 0.0001, None, None)
        baselines = _baselines(eager, True, known, MAX_QUEUED_CALLS, eager.gate, MAX_QUEUED_CALLS)
        batch = self._sized_comparison(candidate, baselines).batch
        return batch.count, batch.queued


def test_short_calls_are_queued_as_many_as_may_be():
    assert _Timed(_timers(call_ms=0.01, fits=5000)).batches(_buffers(), _buffers()) == (
        MAX_QUEUED_CALLS,
        True,
    )


def test_a_queue_that_holds_fewer_is_halved_down_to():
    """20 ms are 667 calls."""
    assert _Timed(_timers(call_ms=0.03, fits=300)).batches(_buffers(), _buffers()) == (667 // 4, True)


@pytest.mark.parametrize(
    ("call_ms", "baseline_ms", "count"),
    [
        (0.1, 0.1, 200),  # as quick: 20 ms each
        (0.1, 1.0, 50),  # five milliseconds of it, and 50 ms of the baseline
        (0.1, 0.3, 134),  # 40 ms of the baseline
        (0.01, 1.0, 200),  # a hundredfold: never more than ten times the usual length
        (1.0, 0.1, 20),  # slower: 20 ms of it
        (50.0, 50.0, 1),
    ],
)
def test_a_slow_baseline_shortens_queued_batches_down_to_what_the_clock_needs(call_ms, baseline_ms, count):
    assert queued_batch_size(call_ms, baseline_ms, most=MOST) == count
    assert queued_batch_size(call_ms, baseline_ms, most=7) == min(7, count)


def test_who_waits_for_the_device_is_not_queued():
    buffers = _buffers()
    count, queued = _Timed(_timers(call_ms=0.05, fits=0)).batches(buffers, _buffers())
    assert (count, queued, buffers.gate) == (1000, False, None)


@pytest.mark.parametrize("claimed_ms", [0.005, 1e-6])
def test_short_queues_do_not_make_batches_our_clock_says_nothing_of(claimed_ms):
    """Eight calls of 5 µs: a claim of nothing would be within what our clock wanders."""
    timed = _Timed(_timers(call_ms=0.005, fits=8, claimed_ms=claimed_ms))
    count, queued = timed.batches(_buffers(), _buffers())
    assert not queued
    assert count * 0.005 >= 15


def test_both_are_queued_or_neither():
    buffers = _buffers()
    count, queued = _Timed(_timers(call_ms=0.05, fits=5000)).batches(buffers, _buffers(gated=False))
    assert (count, queued, buffers.gate) == (1000, False, None)


def test_a_batch_that_memory_keeps_short_is_queued_all_the_same():
    timed = _Timed(_timers(call_ms=0.1, fits=5000))
    timed.sizer = BatchSizer(timed.timer, kind="cuda", most=5)
    assert timed.batches(_buffers(), _buffers()) == (5, True)


def test_who_could_queue_more_needs_more_for_our_clock():
    """Sixteen calls of 0.1 ms: a tenth of them would be within what our clock wanders."""
    count, queued = _Timed(_timers(call_ms=0.1, fits=16)).batches(_buffers(), _buffers())
    assert count > 400
    assert not queued


def test_a_queue_as_long_as_the_references_is_enough():
    buffers, eager = _buffers(), _buffers()
    assert eager.gate is not None
    eager.gate.limit(16)
    eager.gate.note_queued(16)
    timed = _Timed(_timers(call_ms=0.1, fits=16))
    count, queued = timed.batches(buffers, eager)
    assert count > 8
    assert queued


@pytest.mark.parametrize("gated", [False, True])
def test_who_is_slower_while_its_batches_are_sized_again_and_again_gets_large_ones(gated):
    """Each comparison but the last is slow enough for the next batch to stay short."""
    slow_ms = iter([8.0, 3.0, 1.4, 0.6, 0.3] if gated else [20.0, 7.5, 3.5, 1.6, 0.8])
    timed = _Timed(lambda count, queued: cast(InterleavedTimer, _Staircase(count, queued, slow_ms)))
    count, _ = timed.batches(_buffers(gated=gated), _buffers(gated=gated))
    assert count >= 1000


class _Staircase(_Timer):
    """Ever quicker, one step a comparison."""

    def __init__(self, count: int, queued: bool, slow_ms: Iterator[float]) -> None:
        super().__init__(count, queued, call_ms=0.0, claimed_ms=0.0, fits=0)
        self._slow_ms = slow_ms

    def probe(self, buffers: CallBuffers) -> tuple[float, bool]:
        del buffers
        return 60.0, self.queued

    def batch_ms(self) -> float:
        return self.count * next(self._slow_ms, 0.01)


def test_a_queue_known_to_be_shorter_is_not_tried_again():
    probed: list[int] = []
    timers = _timers(call_ms=0.01, fits=300, kind=_noting(probed))
    buffers, sizer = _buffers(), BatchSizer(timers, kind="cuda", most=MOST)
    assert sizer.queueable(buffers, 1024) == 256
    assert sizer.queueable(buffers, 1024) == 256
    assert probed == [1024, 512, 256]


def test_what_a_reference_queues_beside_one_candidate_says_nothing_of_the_next():
    eager = _buffers()
    assert eager.gate is not None
    baselines = _baselines(eager, True, BaselineFacts(1.0, 0.1, None, None), 1024, eager.gate, 512)
    eager.gate.limit(8)
    eager.stop_queueing()
    baselines.restore_queue()
    assert baselines.eager.gate is not None
    assert baselines.eager.gate.capacity == 512


def test_who_does_not_queue_gains_nothing_by_the_references_launches():
    facts = BaselineFacts(1.0, 0.1, None, None)
    baselines = _baselines(_buffers(), True, facts, 1024, None, 0)
    assert baselines.beside(True) == facts
    assert baselines.beside(False).max_ms == 1.0
    baselines.spreads[False] = 0.1
    assert baselines.beside(False).process_spread == 0.1
    assert baselines.beside(True).process_spread is None
    assert _baselines(_buffers(), False, facts, 1024, None, 0).beside(False) == facts


@pytest.mark.parametrize("launched_ms", [0.01, 0.2])
def test_who_is_slower_behind_a_gate_is_not_queued(launched_ms):
    """Streams that wait for each other may do so there."""

    class Handing(_Timer):
        def probe(self, buffers: CallBuffers) -> tuple[float, bool]:
            return super().probe(buffers) if self.queued else (launched_ms, False)

    buffers, timers = _buffers(), _timers(call_ms=0.1, fits=5000, kind=Handing)
    BatchSizer(timers, kind="cuda", most=MOST).size(buffers, None)
    assert (buffers.gate is None) == (launched_ms < 0.09)


@pytest.mark.parametrize(
    ("launches", "most"), [(0, MAX_QUEUED_CALLS), (1, MAX_QUEUED_CALLS), (4, 512), (10**6, 1)]
)
def test_calls_of_many_launches_are_known_not_to_fit(launches, most):
    gate = LaunchGate(0, torch.zeros(1, dtype=torch.int32))
    gate.expect(launches)
    assert gate.capacity == most


def test_a_candidate_is_asked_for_no_more_than_its_reference_queues():
    buffers, eager = _buffers(), _buffers()
    assert eager.gate is not None
    eager.gate.limit(100)
    assert _Timed(_timers(call_ms=0.01, fits=5000)).batches(buffers, eager) == (100, True)
    assert buffers.gate is not None
    assert buffers.gate.largest_queued == 100


@pytest.mark.parametrize(
    ("call_ms", "fits", "count"), [(1.0, 64, 8), (1.0, 4, 4), (6.0, 64, 1), (0.001, 9999, 1024)]
)
def test_a_guess_at_a_queue_that_leaves_batches_short_is_put_to_the_test(call_ms, fits, count):
    """Of a recurrence, which is one launch and counted as thousands of operations."""
    buffers, sizer = _buffers(), BatchSizer(_timers(call_ms=call_ms, fits=fits), kind="cuda", most=MOST)
    assert buffers.gate is not None
    buffers.gate.expect(10**6)
    assert sizer.grown(buffers, sizer.size(buffers, None)) == count
    assert buffers.gate is not None


def test_a_call_as_long_as_a_batch_is_probed_once():
    probed: list[int] = []
    timers = _timers(call_ms=60.0, fits=0, kind=_noting(probed))
    assert BatchSizer(timers, kind="cuda", most=MOST).size(_buffers(gated=False), None) == 1
    assert probed == [1]


def test_batches_that_turn_out_less_than_half_as_long_as_wanted_are_sized_again():
    timed = _Timed(_timers(call_ms=0.05, claimed_ms=0.125, fits=0))
    count, _ = timed.batches(_buffers(gated=False), _buffers(gated=False))
    assert 900 < count <= 1000


def test_reference_processes_are_compared_in_batches_no_longer_than_that_takes():
    assert (_few(1000, 0.1), _few(10, 0.1), _few(1000, 100.0)) == (120, 10, 1)


@pytest.mark.parametrize(("failures", "queues"), [(1, True), (2, False)])
def test_a_call_that_once_is_not_queued_in_time_is_queued_again(failures, queues):
    """A busy host or full memory delays anyone once."""
    ends = [False] * failures + [True]

    class Delayed(_Timer):
        def probe(self, buffers: CallBuffers) -> tuple[float, bool]:
            return 1.0, self.queued and ends.pop(0)

    buffers, timers = _buffers(), _timers(call_ms=1.0, fits=MOST, kind=Delayed)
    assert BatchSizer(timers, kind="cuda", most=MOST).probe(buffers, 1) == (1.0, 1)
    assert (buffers.gate is not None) == queues
