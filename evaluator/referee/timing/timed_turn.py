"""One side's turn: inputs nobody has seen, calls under both clocks, a private copy of what they wrote."""

from __future__ import annotations

import random
import time
from typing import Final

import torch

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.ipc.tensor_layout import stacked
from kernelwright.evaluator.referee.timing.output_snapshots import OutputSnapshot
from kernelwright.evaluator.referee.timing.tamper_checks import MemorySample
from kernelwright.evaluator.referee.timing.timed_inputs import InputRecipe, TimedInputs
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.timed_run import RunResult, TimedRun
from kernelwright.evaluator.schema.evaluation import Status

_SELF_FLUSHING_BYTES: Final = 96 << 20


class TurnRunner:
    """Takes turns with one side after the other."""

    def __init__(
        self, device: Device, ring: TimedInputs, secret: random.Random, *, queued: bool, call_timeout_s: float
    ) -> None:
        """`queued`: calls wait in the device's queue for their inputs; every lane needs a gate."""
        self._device = device
        self._ring = ring
        self._secret = secret
        self._queued = queued
        self._call_timeout_s = call_timeout_s
        self._sees = False
        """Whether memory of processes can be looked at here."""

    def visit(
        self, lane: CallBuffers, recipe: InputRecipe, *, lead: int, full: bool
    ) -> tuple[RunResult, list[torch.Tensor]]:
        """Per turn: unscored warm-up, freeze, publish inputs and poison outputs, thaw, run, freeze, snapshot.

        `full` batches also tell what writing their inputs took.

        Raises:
            Verdict: the side failed or hung, changed its inputs, or went on after its answer.
        """
        side, count = lane.worker, recipe.count
        if lane.calls:
            self._run(lane, max(1, min(count // 8, lane.calls)))
        side.freeze()
        turn = _Turn(lane, recipe, self._device, self._ring, self._secret, full)
        host = self._device.torch_device.type == "cpu"
        gate = lane.gate if self._queued else None
        ran = self._run(lane, count, TimedRun(turn.publish, turn.withdraw, lead, gate))
        # Freezing stops host threads at once but takes a moment; it does not stop a queued GPU kernel.
        if host:
            side.freeze()
            if self._sees and not turn.was_seen:
                raise CandidateFailed(Status.TAMPERED, "the process does not let its memory be looked at")
            self._sees |= turn.was_seen
        copies = turn.outputs()
        lane.calls = max(lane.calls, count)
        return ran, copies

    def _run(self, lane: CallBuffers, count: int, timed: TimedRun | None = None) -> RunResult:
        ran = lane.worker.run(
            lane.layout,
            model="m",
            first=0,
            count=count,
            timeout_s=self._call_timeout_s * max(1.0, count / 8),
            timed=timed,
        )
        if ran.complaint:
            raise CandidateFailed(
                Status.WRONG_SHAPE if ran.kind == "shape" else Status.WRONG_DTYPE, ran.complaint
            )
        return ran


class _Turn:
    """What the referee does to the memory of a side in one turn."""

    def __init__(
        self,
        lane: CallBuffers,
        recipe: InputRecipe,
        device: Device,
        ring: TimedInputs,
        secret: random.Random,
        full: bool,
    ) -> None:
        blocks, self._count = lane.worker.blocks, recipe.count
        self._lane, self._recipe, self._device, self._ring, self._full = lane, recipe, device, ring, full
        self._inputs, self._outputs = blocks[lane.input_block].data, blocks[lane.output_block].data
        self._given = MemorySample(self._inputs, lane.input_slots, self._count, secret)
        self._written = MemorySample(self._outputs, lane.output_slots, self._count, secret)
        host = device.torch_device.type == "cpu"
        self._held = OutputSnapshot(lane.worker, lane.output_slots, self._count, secret) if host else None
        self.was_seen = False
        """Whether what the process held could be looked at."""

    def publish(self) -> None:
        """Write inputs, poison outputs."""
        self._device.synchronize()
        began = time.perf_counter()
        self._ring.publish(self._inputs, self._lane.input_slots, self._recipe)
        self._given.look()
        for slot in self._lane.output_slots:
            self._outputs[slot["offset"] : slot["offset"] + slot["pitch"] * self._count].fill_(0xFF)
        if self._outputs.numel() < _SELF_FLUSHING_BYTES:
            self._device.flush_cache()
        self._device.synchronize()
        if self._full:
            self._lane.published_ms.append((time.perf_counter() - began) * 1e3)

    def withdraw(self, where: object) -> None:
        """Take the inputs away once the calls are over: nothing is left to compute while collecting."""
        self._lane.worker.freeze()
        if self._held is not None:
            self.was_seen = self._held.look(where)
        if self._ring.inputs_stay and self._given.moved():
            raise CandidateFailed(Status.INPUT_MUTATED, "inputs were changed by a timed call")
        began = time.perf_counter()
        self._ring.withdraw(self._inputs, self._lane.input_slots, self._recipe)
        self._device.synchronize()
        if self._full:
            self._lane.withdrawn_ms.append((time.perf_counter() - began) * 1e3)

    def outputs(self) -> list[torch.Tensor]:
        """A private copy; whoever goes on after its answer is found out."""
        self._written.look()
        slots = self._lane.output_slots
        copies = [stacked(self._outputs, slot, 0, self._count).clone() for slot in slots]
        self._device.synchronize()
        self._lane.worker.freeze()
        if self._written.moved():
            raise CandidateFailed(Status.TAMPERED, "outputs still changed after the process had answered")
        if self._held is not None and self._held.differs(copies):
            raise CandidateFailed(Status.TAMPERED, "outputs were not there yet when the process had answered")
        return copies
