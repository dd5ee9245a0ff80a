"""The shared memory in which one worker finds the inputs of prepared calls and leaves their outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest

import torch

from kernelwright.evaluator.devices import Block
from kernelwright.evaluator.ipc.tensor_layout import Slot, view
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.launch_gate import LaunchGate
from kernelwright.evaluator.referee.worker.timed_run import RunResult, TimedRun
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status


@dataclass(slots=True)
class CallBuffers:
    """One worker's memory for the calls of one layout; every call has an index."""

    worker: WorkerProcess
    layout: str
    input_slots: list[Slot]
    output_slots: list[Slot]
    input_block: int
    output_block: int
    gate: LaunchGate | None = None
    """The calls are queued behind it; None where they cannot be."""
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

    def inputs(self, index: int = 0) -> list[torch.Tensor]:
        """View the inputs of a call."""
        return [view(self.worker.blocks[slot["block"]].data, slot, index) for slot in self.input_slots]

    def outputs(self, index: int = 0) -> list[torch.Tensor]:
        """View the outputs of a call."""
        return [view(self.worker.blocks[slot["block"]].data, slot, index) for slot in self.output_slots]

    def write(self, leaves: list[torch.Tensor], index: int = 0) -> None:
        """Copy the inputs of a call into place."""
        write(self.worker.blocks, self.input_slots, leaves, index)

    def read(self, index: int = 0) -> list[torch.Tensor]:
        """Copy the outputs of a call."""
        return [output.clone() for output in self.outputs(index)]

    def run(
        self, model: str, *, timeout_s: float, first: int = 0, count: int = 1, timed: TimedRun | None = None
    ) -> RunResult:
        """Run prepared calls and collect their outputs.

        Raises:
            CandidateFailed: the worker failed or hung, or an output has the wrong shape or type.
        """
        ran = self.worker.run(
            self.layout, model=model, first=first, count=count, timeout_s=timeout_s, timed=timed
        )
        if ran.complaint:
            status = Status.WRONG_SHAPE if ran.kind == "shape" else Status.WRONG_DTYPE
            raise CandidateFailed(status, ran.complaint)
        return ran


def write(blocks: list[Block], slots: list[Slot], leaves: list[torch.Tensor], index: int) -> None:
    """Copy tensors into shared memory at call `index`."""
    for slot, leaf in zip(slots, leaves, strict=True):
        view(blocks[slot["block"]].data, slot, index).copy_(leaf)
