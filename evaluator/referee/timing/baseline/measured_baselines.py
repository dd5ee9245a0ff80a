"""A problem's reference once it is measured: facts about its times, and its memory for calls."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kernelwright.evaluator.referee.timing.speedup import BaselineFacts
from kernelwright.evaluator.referee.timing.timing_session import TimingSession
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.launch_gate import LaunchGate
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Timing


@dataclass(slots=True)
class Baselines:
    """A problem's reference on this device: its process, and what candidates are compared with."""

    worker: WorkerProcess
    """The process that candidates are compared with."""
    queued: bool
    """True if its calls can be queued ahead of the clock."""
    facts: BaselineFacts
    """Facts about calls that are queued if they can be: the times of queued calls exclude launching."""
    count: int
    """Calls of the batches that these facts are from."""
    gate: LaunchGate | None
    """The gate that its calls were queued behind."""
    capacity: int
    """Calls that are queued while nobody else uses the device."""
    buffers: CallBuffers | None
    """Its memory for calls, while a candidate is timed; between two it would only fill the device."""
    spreads: dict[bool, float] = field(default_factory=dict)
    """Relative standard deviation between processes by whether calls are queued, as far as it is measured."""

    @property
    def eager(self) -> CallBuffers:
        """Its memory for calls, which it must have now."""
        if self.buffers is None:
            raise RuntimeError("the baseline's memory was given back")
        return self.buffers

    def restore_queue(self) -> None:
        """Undo limits from memory that was short beside one candidate."""
        self.eager.queue_behind(self.gate, self.capacity)

    def lay_out(self, session: TimingSession) -> None:
        """Make room for its calls, where there is none."""
        if self.buffers is None:
            self.worker.thaw()
            self.buffers = session.lay_out(self.worker)
            if self.gate is not None and self.buffers.gate is not None:
                self.buffers.gate.like(self.gate)
                self.gate = self.buffers.gate

    def free(self) -> None:
        """Give its memory for calls back."""
        buffers, self.buffers = self.buffers, None
        if buffers is not None:
            self.worker.thaw()
            buffers.free()
            self.worker.freeze()

    def beside(self, queued: bool) -> BaselineFacts:
        """Facts that hold beside a candidate whose calls are queued or not.

        A candidate that synchronises pays for its own launches; the baseline's are excluded. Otherwise a
        candidate could choose whether they count.
        """
        max_ms = None if queued == self.queued else self.facts.solo_ms
        return replace(self.facts, max_ms=max_ms, process_spread=self.spreads.get(queued))

    def set_solo(self, alone: Timing) -> None:
        """Record the reference's time alone anew."""
        self.facts = replace(self.facts, solo_ms=alone.median_ms, solo_spread_ms=alone.spread_ms)
