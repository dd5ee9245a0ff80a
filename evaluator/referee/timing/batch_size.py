"""Calls in a batch: enough for the referee's clock, no more than memory and a device's queue hold."""

from __future__ import annotations

import math
from collections.abc import Callable

from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.timing_loop import InterleavedTimer
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.launch_gate import MAX_QUEUED_CALLS


class BatchSizer:
    """Sizes the batches of one problem's workers."""

    def __init__(self, timer: Callable[[int, bool], InterleavedTimer], *, kind: str, most: int) -> None:
        """`timer` makes one for batches of so many calls, queued or not; memory holds `most`."""
        self._timer = timer
        self._kind = kind
        self._most = most

    def size(self, buffers: CallBuffers, baseline_ms: float | None) -> int:
        """Size a worker's batches from a call alone, then from a small batch, which pipelines.

        Calls that take longer behind a gate than with their launches are not queued: streams that wait for
        each other may do so there.
        """
        count = 1
        for _ in range(2):
            call_ms, tried = self.probe(buffers, count)
            count = self.wanted(call_ms, baseline_ms or call_ms, buffers)
            if count == tried:
                break
        if buffers.gate is not None:
            launched_ms, _ = self._timer(tried, False).probe(buffers)
            if launched_ms < policy.GATE_SLOWDOWN * call_ms:
                buffers.stop_queueing()
        return self.queueable(buffers, count)

    def queueable(self, buffers: CallBuffers, count: int) -> int:
        """Reduce a batch to as many calls as this worker is seen to queue."""
        gate = buffers.gate
        if gate is None:
            return count
        count = min(count, gate.capacity)
        return count if count <= gate.largest_queued else self.probe(buffers, count)[1]

    def grown(self, buffers: CallBuffers, count: int) -> int:
        """Enlarge batches that a guess at the queue's capacity left too short for the referee's clock."""
        gate = buffers.gate
        while gate is not None and count == gate.capacity < MAX_QUEUED_CALLS:
            call_ms, _ = self.probe(buffers, count)
            if count * call_ms >= policy.SHORTEST_CHOSEN_MS:
                break
            gate.set_capacity(2 * count)
            larger = self.queueable(buffers, min(gate.capacity, self.wanted(call_ms, call_ms, buffers)))
            if larger <= count:
                break
            count, gate = larger, buffers.gate
        return count

    def probe(self, buffers: CallBuffers, count: int) -> tuple[float, int]:
        """Return a call's time in batches of this size, or of fewer calls that fit the queue, and the size.

        A worker that twice does not queue a single call waits for the device in its calls: it stops queueing.
        The first time it may have waited for memory, or for a core.
        """
        attempts = 0
        while True:
            call_ms, queued = self._timer(count, buffers.gate is not None).probe(buffers)
            gate = buffers.gate
            if gate is None or queued:
                break
            if count > 1:
                count //= 2
                gate.limit(count)
                continue
            attempts += 1
            if attempts == policy.QUEUE_ATTEMPTS:
                buffers.stop_queueing()
        if gate is not None:
            gate.note_queued(count)
        return max(call_ms, policy.SHORTEST_CALL_MS), count

    def wanted(self, call_ms: float, baseline_ms: float, *workers: CallBuffers) -> int:
        """Calls in a batch of these workers."""
        capacities = [buffers.gate.capacity for buffers in workers if buffers.gate is not None]
        if capacities:
            return queued_batch_size(call_ms, baseline_ms, most=min(self._most, *capacities))
        return batch_size(call_ms, baseline_ms, batch_ms=policy.BATCH_MS[self._kind], most=self._most)

    def is_long_enough(self, call_ms: float, count: int, baseline_ms: float, baseline: CallBuffers) -> bool:
        """Return whether a candidate's queued batches, by the referee's clock, are long enough for it.

        Its queue may be short for reasons of its own, such as a device whose memory is full; and a candidate
        that wants short batches can stop queueing, so more is asked where nothing but its queue is the limit.
        """
        batch_ms = call_ms * count
        if 2 * count < self.wanted(call_ms, baseline_ms, baseline):
            return batch_ms >= policy.SHORTEST_CHOSEN_MS
        return batch_ms >= policy.SHORTEST_QUEUED_MS or count >= self.wanted(call_ms, baseline_ms, baseline)


def batch_size(call_ms: float, baseline_ms: float, *, batch_ms: float, most: int) -> int:
    """Calls in a batch: long enough for the clock, within memory, and bearable for the slower worker."""
    wanted = _calls_in(batch_ms, call_ms)
    bearable = _calls_in(policy.SLOW_CANDIDATE * batch_ms, baseline_ms)
    return max(1, min(wanted, bearable, most))


def queued_batch_size(call_ms: float, baseline_ms: float, *, most: int) -> int:
    """The same of queued calls, whose times are exact in short batches: the slower worker decides sooner."""
    wanted = batch_size(call_ms, baseline_ms, batch_ms=policy.QUEUED_BATCH_MS, most=most)
    enough = _calls_in(policy.SHORTEST_CHOSEN_MS, call_ms)
    return min(wanted, max(enough, _calls_in(policy.QUEUED_BATCHES * policy.QUEUED_BATCH_MS, baseline_ms)))


def _calls_in(batch_ms: float, call_ms: float) -> int:
    return math.ceil(batch_ms / max(call_ms, policy.SHORTEST_CALL_MS))
