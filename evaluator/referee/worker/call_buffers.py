"""The shared memory in which one worker finds the inputs of prepared calls and leaves their outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import torch

from kernelwright.evaluator.devices import Block
from kernelwright.evaluator.ipc.contestant_messages import Run
from kernelwright.evaluator.ipc.tensor_layout import Slot, view
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.launch_gate import LaunchGate
from kernelwright.evaluator.referee.worker.output_ownership import ReturnedOutputs
from kernelwright.evaluator.referee.worker.timed_run import RunResult, TimedRun
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status

_COMPLAINTS: Final = {
    "shape": Status.WRONG_SHAPE,
    "memory": Status.MEMORY_ERROR,
    "state": Status.WRONG_VALUES,
}


@dataclass(slots=True)
class CallBuffers:
    """One worker's memory for the calls of one layout; every call has an index."""

    worker: WorkerProcess
    layout: str
    input_slots: list[Slot]
    output_slots: list[Slot]
    input_block: int
    output_block: int
    state_slots: list[Slot] = field(default_factory=list)
    """Places of the state that calls change, as the last call of a run left it."""
    changed: tuple[int, ...] = ()
    """Inputs that calls change."""
    gate: LaunchGate | None = None
    """The calls are queued behind it; None where they cannot be."""
    lone_gate: LaunchGate | None = None
    """A lone call that is not queued waits for it in its process, which is awake by then."""
    gate_block: int | None = None
    """The block of the word that a gate waits for."""
    returned: ReturnedOutputs = field(init=False)
    """Outputs in the worker's own memory."""

    def __post_init__(self) -> None:
        self.returned = ReturnedOutputs(self.worker, self.layout, self.output_slots, self.output_block)

    def _views(self, slots: list[Slot], index: int) -> list[torch.Tensor]:
        return [view(self.worker.blocks[slot["block"]].data, slot, index) for slot in slots]

    def inputs(self, index: int = 0) -> list[torch.Tensor]:
        return self._views(self.input_slots, index)

    def outputs(self, index: int = 0) -> list[torch.Tensor]:
        return self._views(self.output_slots, index)

    def write(self, leaves: list[torch.Tensor], index: int = 0) -> None:
        """Copy the inputs of a call into place."""
        write(self.worker.blocks, self.input_slots, leaves, index)

    def state(self) -> list[torch.Tensor]:
        """View the state that the last run left."""
        return self._views(self.state_slots, 0)

    def read(self, index: int = 0, *, last: bool = True) -> list[torch.Tensor]:
        """Copy the outputs of a call: what it returned, inputs it changed and, of a run's last, state."""
        inputs = self.inputs(index)
        found = [*self.outputs(index), *(inputs[number] for number in self.changed)]
        return [tensor.clone() for tensor in (*found, *(self.state() if last else ()))]

    def run(
        self, model: str, *, timeout_s: float, first: int = 0, count: int = 1, timed: TimedRun | None = None
    ) -> RunResult:
        """Run prepared calls and collect their outputs.

        Raises:
            CandidateFailed: the worker failed or hung, or an output has the wrong shape or type.
            ProblemError: the reference's outputs do not fit where they fitted when it was opened.
        """
        run, runner = Run(layout=self.layout, model=model, first=first, count=count), self.worker.runner
        ran = runner.begin(run, timeout_s)() if timed is None else runner.run(run, timeout_s, timed)
        return self._noted(run, ran)

    def begin_run(self, model: str, *, timeout_s: float) -> Callable[[], RunResult]:
        """Begin the first prepared call, untimed; return what waits for its end, and raises what `run` does.

        Nothing else may be asked of the worker before.
        """
        run = Run(layout=self.layout, model=model, first=0, count=1)
        finish = self.worker.runner.begin(run, timeout_s)
        return lambda: self._noted(run, finish())

    def _noted(self, run: Run, ran: RunResult) -> RunResult:
        if ran.complaint:
            raise CandidateFailed(_COMPLAINTS.get(ran.kind, Status.WRONG_DTYPE), ran.complaint)
        self.returned.note(run.first, run.count, ran.where)
        return ran

    def free(self) -> None:
        """Free the memory; nothing can be run here any more."""
        blocks = [self.input_block, self.output_block]
        blocks += [self.gate_block] if self.gate_block is not None else []
        self.worker.detach(self.layout, blocks)

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
