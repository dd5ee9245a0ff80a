"""The shared memory in which one worker finds the inputs of prepared calls and leaves their outputs."""

from __future__ import annotations

from dataclasses import dataclass

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
    filled: int = 0
    """Calls whose inputs were written by a turn; memory beyond them holds none."""

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

    def mark_filled(self, count: int) -> None:
        """Note that the first `count` calls have inputs."""
        self.filled = max(self.filled, count)

    def stop_queueing(self) -> None:
        """Launch calls in their own time from now on."""
        self.gate = None

    def queue_behind(self, gate: LaunchGate | None, capacity: int | None = None) -> None:
        """Queue calls behind a gate, up to its capacity or another."""
        self.gate = gate
        if gate is not None and capacity is not None:
            gate.set_capacity(capacity)


def write(blocks: list[Block], slots: list[Slot], leaves: list[torch.Tensor], index: int) -> None:
    """Copy tensors into shared memory at call `index`."""
    for slot, leaf in zip(slots, leaves, strict=True):
        view(blocks[slot["block"]].data, slot, index).copy_(leaf)
