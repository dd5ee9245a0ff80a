"""The shared memory in which one worker finds its inputs and leaves its outputs, and its measured turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest

from kernelwright.evaluator.ipc.tensor_layout import Slot
from kernelwright.evaluator.referee.worker.launch_gate import LaunchGate
from kernelwright.evaluator.referee.worker.worker_process import RunResult, WorkerProcess


@dataclass(slots=True)
class CallBuffers:
    """One side with its layout, and what its turns measured."""

    side: WorkerProcess
    layout: str
    input_slots: list[Slot]
    output_slots: list[Slot]
    input_block: int
    output_block: int
    gate: LaunchGate | None = None
    """What its calls are queued behind; None where they cannot be."""
    turns: list[RunResult] = field(default_factory=list)
    """Full batches, in order."""
    singles: list[RunResult] = field(default_factory=list)
    """Unannounced batches of one call."""
    published_ms: list[float] = field(default_factory=list)
    """What it took to publish the inputs of each full batch while the side was frozen."""
    withdrawn_ms: list[float] = field(default_factory=list)
    """What it took to take them away again, likewise."""
    calls: int = 0
    """Most calls of a batch so far; memory beyond was never given inputs."""

    @property
    def written_ms(self) -> list[float]:
        """What publishing and withdrawing took together, in each turn."""
        latest = (made[-len(self.turns) :] for made in (self.published_ms, self.withdrawn_ms))
        return [sum(both) for both in zip_longest(*latest, fillvalue=0.0)]

    def forget(self) -> None:
        """Drop what was measured; the layout stays."""
        self.turns, self.singles, self.published_ms, self.withdrawn_ms = [], [], [], []
