"""What all timing of one problem shares: secret inputs, memory for calls, clocks of one kind."""

from __future__ import annotations

import random
from typing import Final

from kernelwright.evaluator.referee.correctness.tolerance import limit
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.timing.batch_size import BatchSizer
from kernelwright.evaluator.referee.timing.interleaved_timer import InterleavedTimer, Schedule
from kernelwright.evaluator.referee.timing.timed_inputs import TimedInputs
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.launch_gate import WORD_BYTES, gate
from kernelwright.evaluator.referee.worker.setup import ProblemContext, call_bytes, lay_out
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import DeviceFull

_MOST_CALLS: Final = 4096
_LEAD: Final = {"cpu": 0, "cuda": 1}
"""Unscored calls that a batch begins with: launching the first kernel takes a host as long as tens of
microseconds of work, and more while its cores are busy, which a batch short of memory does not dilute."""
_MEMORY_SHARE: Final = 0.15
"""Of what is free, at most, for one side."""
_CROWDED: Final = 0.25
"""With less than this of what a side would have on an empty device, batches are too short to time."""
_MEMORY_BYTES: Final = {"cpu": 192 << 20, "cuda": 6 << 30}
"""For a side's timed calls. What keeps a GPU busy for less than a few milliseconds leaves our clock, which
wanders by tenths of one, too much to say."""
_TRUSTED_TURNS: Final = 6
_TRUSTED_CALL_S: Final = 120.0


class TimingSession:
    """Makes clocks, and room for what they time."""

    def __init__(
        self,
        ground: ProblemContext,
        pool: TrialPool,
        config: EvaluationConfig,
        secret: random.Random,
        *,
        insists: bool,
    ) -> None:
        """`insists` on room for batches of some length.

        Raises:
            DeviceFull: there is none.
        """
        first = pool.draws[0]
        self.device = ground.device
        self.kind = ground.device.torch_device.type
        self.slowest_ms = 0.0
        """What the reference takes a call, once that is known; ten times as long is bearable."""
        self._config = config
        self._secret = secret
        self._base = pool.bases[0]
        self._ring = TimedInputs(
            pool.starts(),
            pool.fresh,
            secret=secret,
            limit=limit(config.math.value, zero_mean=False, terms=pool.trace.terms),
            inputs_stay=not ground.reference.mutates(first.model, self._base.arguments),
        )
        self._most = self._most_calls(insists=insists)
        self._lead = min(_LEAD[self.kind], self._most - 1)
        self.sizing = BatchSizer(self.clock, kind=self.kind, most=self._most - self._lead)

    def lay_out(self, side: WorkerProcess) -> CallBuffers:
        """Make room for the timed calls of model `m` of a side."""
        lane = lay_out(side, "time", self._base.arguments, self._base.expected.output, self._most)
        lane.gate = gate(self.device, side.blocks, side.attach([WORD_BYTES])[0])
        return lane

    def clock(self, count: int, queued: bool) -> InterleavedTimer:
        """A clock for batches of so many calls."""
        schedule = Schedule(
            count=count,
            target_ms=self._config.target_ms,
            max_turns=self._config.max_turns,
            call_timeout_s=self._config.limits.call_s + 10 * self.slowest_ms / 1e3,
            queued=queued,
            lead=self._lead,
        )
        return InterleavedTimer(self.device, self._ring, schedule, self._secret)

    def comparing(self, count: int, queued: bool) -> InterleavedTimer:
        """A clock for a few turns of two trusted sides."""
        schedule = Schedule(
            count=count,
            target_ms=0.0,
            max_turns=_TRUSTED_TURNS,
            call_timeout_s=_TRUSTED_CALL_S,
            queued=queued,
            singles=False,
            lead=self._lead,
        )
        return InterleavedTimer(self.device, self._ring, schedule, self._secret)

    def _most_calls(self, *, insists: bool) -> int:
        size = call_bytes(self._base.arguments, self._base.expected.output)
        free, total = self.device.free_bytes(), self.device.total_bytes()
        now, alone = (min(_MEMORY_BYTES[self.kind], int(room * _MEMORY_SHARE)) for room in (free, total))
        if insists and self.kind == "cuda" and now < min(_CROWDED * alone, _MOST_CALLS * size):
            # What is opened in a crowd would be timed in short batches for as long as it is open.
            raise DeviceFull(f"only {free >> 20} MiB of the device's memory are free")
        return self._ring.most_calls(max(1, min(_MOST_CALLS, now // size)))
