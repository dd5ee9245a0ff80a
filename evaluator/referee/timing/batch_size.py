"""How many calls a batch has: enough for the clock, no more than memory and a device's queue hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from kernelwright.evaluator.referee.timing.interleaved_timer import InterleavedTimer
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.launch_gate import MOST_QUEUED

BATCH_MS: Final = {"cpu": 5.0, "cuda": 50.0}
_LEAST_MS: Final = 1e-3
_LEAST_QUEUED_MS: Final = 1.25
"""Of a whole batch by our clock, which includes a quarter of a millisecond of messages."""
_LEAST_CHOSEN_MS: Final = 5.0
"""The same where the candidate might have queued more: a full queue holds about as much."""


_SLOWED: Final = 0.9
"""Of what a call takes behind a gate, with its launches: less is no chance."""


class BatchSizer:
    """Sizes the batches of one problem's sides."""

    def __init__(self, clock: Callable[[int, bool], InterleavedTimer], *, kind: str, most: int) -> None:
        """`clock` makes one for batches of so many calls, queued ahead or not; `most` fit into memory."""
        self._clock = clock
        self._kind = kind
        self._most = most

    def settle(self, lane: CallBuffers, reference_ms: float | None) -> int:
        """Batch size from what a call takes: first alone, then in a small batch, which pipelines.

        A side whose calls take longer behind a gate than with their launches is not queued: streams that wait
        for each other may do so there.
        """
        count = 1
        for _ in range(2):
            call_ms, tried = self.probe(lane, count)
            count = self.wanted(call_ms, reference_ms or call_ms, lane)
            if count == tried:
                break
        if lane.gate is not None and self._launched_ms(lane, tried) < _SLOWED * call_ms:
            lane.gate = None
        return self.queueable(lane, count)

    def _launched_ms(self, lane: CallBuffers, count: int) -> float:
        """What a call takes at best where launching it is part of its time."""
        return self._clock(count, False).probe(lane)[0]

    def queueable(self, lane: CallBuffers, count: int) -> int:
        """So many calls, or as many as this side is seen to queue ahead."""
        if lane.gate is None:
            return count
        count = min(count, lane.gate.most)
        return count if count <= lane.gate.tried else self.probe(lane, count)[1]

    def grown(self, lane: CallBuffers, count: int) -> int:
        """More calls, where a guess at what a queue holds left a batch too short for our clock."""
        while lane.gate is not None and count == lane.gate.most < MOST_QUEUED:
            call_ms, _ = self.probe(lane, count)
            if count * call_ms >= _LEAST_CHOSEN_MS:
                break
            lane.gate.most = min(2 * count, MOST_QUEUED)
            wanted = min(lane.gate.most, self.wanted(call_ms, call_ms, lane))
            more = self.queueable(lane, wanted)
            if more <= count:
                break
            count = more
        return count

    def probe(self, lane: CallBuffers, count: int) -> tuple[float, int]:
        """What a call takes at best in batches of so many, or of fewer where they do not fit the queue.

        A side that does not queue even one waits for the device in its calls: its gate is taken away.
        """
        while True:
            call_ms, queued = self._clock(count, lane.gate is not None).probe(lane)
            if lane.gate is None or queued:
                break
            if count == 1:
                lane.gate = None
            else:
                count //= 2
                lane.gate.most = count
        if lane.gate is not None:
            lane.gate.tried = max(lane.gate.tried, count)
        return max(call_ms, _LEAST_MS), count

    def wanted(self, call_ms: float, reference_ms: float, *lanes: CallBuffers) -> int:
        """Calls in a batch of these sides."""
        queued = [lane.gate.most for lane in lanes if lane.gate is not None]
        most = min(self._most, *queued) if queued else self._most
        return batch_size(call_ms, reference_ms, batch_ms=BATCH_MS[self._kind], most=most)

    def tells(self, outer_ms: float, count: int, reference_ms: float, eager: CallBuffers) -> bool:
        """Whether a candidate's queued batches, of calls that take so long, leave our clock enough to say.

        Its queue may be short for reasons of its own, such as a device whose memory is full; and whoever
        wants short batches can stop queueing, so that more is asked where nothing but its queue is the limit.
        """
        took_ms = outer_ms * count
        if 2 * count < self.wanted(outer_ms, reference_ms, eager):
            return took_ms >= _LEAST_CHOSEN_MS
        return took_ms >= _LEAST_QUEUED_MS or count >= self.wanted(outer_ms, reference_ms)


def batch_size(call_ms: float, reference_ms: float, *, batch_ms: float, most: int) -> int:
    """Calls in a batch: long enough for the clock, within memory, and bearable for the slower side."""
    wanted = math.ceil(batch_ms / max(call_ms, _LEAST_MS))
    bearable = math.ceil(10 * batch_ms / max(reference_ms, _LEAST_MS))
    return max(1, min(wanted, bearable, most))
