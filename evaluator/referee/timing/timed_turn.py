"""One turn of one worker: inputs it has not seen, calls under both clocks, a private copy of its outputs."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import torch

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.devices.cpu import competing_threads
from kernelwright.evaluator.ipc.tensor_layout import stacked
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.claimed_time import Turn
from kernelwright.evaluator.referee.timing.tamper_checks import AnswerSample, MemorySample
from kernelwright.evaluator.referee.timing.timed_inputs import InputRecipe, TimedInputs
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.timed_run import TimedRun
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status

_LATE: Final = "outputs, or what calls change, were not there yet when the process had answered"


@dataclass(slots=True)
class TurnRunner:
    """Runs turns of one worker after the other."""

    device: Device
    inputs: TimedInputs
    secret: random.Random
    queued: bool
    """Calls wait in the device's queue for their inputs; all buffers need a gate."""
    call_timeout_s: float

    def run(
        self,
        buffers: CallBuffers,
        recipe: InputRecipe,
        *,
        lead: int,
        overwrites: bool,
        is_lone: bool = False,
        spoils: bool = True,
    ) -> tuple[Turn, list[torch.Tensor]]:
        """Freeze, publish, poison, thaw, run, freeze, withdraw, collect, freeze, copy and overwrite outputs.

        No call is made beside these: what a process does ahead of its calls should be on a clock. Without
        `overwrites`, outputs are dropped and their ownership is not looked at. A call that `is_lone`
        finds a process that is awake and, on a CPU, as warm as in the middle of a batch. With `spoils`, noise
        is written to outputs of queued calls before their inputs.

        Raises:
            CandidateFailed: the worker failed or hung, changed its inputs, or went on after its answer.
        """
        worker, count = buffers.worker, recipe.count
        on_cpu = self.device.torch_device.type == "cpu"
        worker.freeze()
        self._rehearse(buffers, recipe)
        gate = buffers.gate if self.queued else buffers.lone_gate if is_lone else None
        memory = _TurnMemory(buffers, recipe, self.device, self.inputs, self.secret, is_lone=is_lone)
        timeout_s = self.call_timeout_s * max(1.0, count / policy.CALLS_PER_TIMEOUT)
        steps = memory.begin, memory.publish, memory.look, memory.withdraw
        timed = TimedRun(
            *steps,
            lead,
            gate,
            on_host=not self.queued,
            wake=memory.wake if memory.wakes_early else None,
            spoils=spoils,
        )
        frozen_before_ms = worker.freezing_ms
        with _reference_blamed(worker):
            ran = buffers.run("m", count=count, timeout_s=timeout_s, timed=timed)
            outputs = memory.copy_outputs()
        returned_ms = 0.0
        if overwrites:
            looks = bool(recipe.given) or self.secret.random() < policy.LOOK_CHANCE
            with _reference_blamed(worker):
                returned_ms = buffers.returned.take_back(self.secret, collect_ms=ran.collect_ms, looks=looks)
        else:
            buffers.returned.drop()
        turn = Turn(
            claimed_ms=ran.inner_ms + ran.copied_ms,
            # Copies come after the answer; `owning_ms` holds what they took beyond their claim.
            answered_ms=ran.outer_ms + ran.copied_ms,
            collected_ms=ran.outer_ms + ran.copied_ms + ran.collect_ms,
            owning_ms=max(0.0, ran.owned_ms - ran.copied_ms),
            freezing_ms=worker.freezing_ms - frozen_before_ms if on_cpu else 0.0,
            launch_ms=ran.launch_ms,
            setup_ms=ran.setup_ms,
            foreign_device_ms=memory.foreign_device_ms,
            returned_ms=returned_ms + memory.frozen_ms,
            competing=memory.competing,
        )
        return turn, outputs

    def _rehearse(self, buffers: CallBuffers, recipe: InputRecipe) -> None:
        """Do unwatched, with other inputs, what this kind of turn does watched: once in a process.

        The first launch of a kernel loads it, which waits until the device's watch gives up.
        """
        kind = recipe.count, bool(recipe.given), recipe.near is not None
        rehearsed = self.inputs.rehearsed
        if self.device.torch_device.type == "cuda" and kind not in rehearsed:
            other = self.inputs.another(recipe)
            _TurnMemory(buffers, other, self.device, self.inputs, self.secret).rehearse()
            rehearsed.add(kind)


@contextlib.contextmanager
def _reference_blamed(worker: WorkerProcess) -> Iterator[None]:
    """A process of the reference that is refused has failed, which is no fault of the candidate beside it."""
    try:
        yield
    except CandidateFailed:
        worker.failed |= worker.role == "baseline"
        raise


class _TurnMemory:
    """Reads and writes a worker's memory in one turn."""

    def __init__(
        self,
        buffers: CallBuffers,
        recipe: InputRecipe,
        device: Device,
        inputs: TimedInputs,
        secret: random.Random,
        *,
        is_lone: bool = False,
    ) -> None:
        """A call that `is_lone` finds caches as they are on a CPU, and its process awake on a GPU."""
        blocks, self._count = buffers.worker.blocks, recipe.count
        self._buffers, self._recipe, self._device, self._source = buffers, recipe, device, inputs
        self._inputs, self._outputs = blocks[buffers.input_block].data, blocks[buffers.output_block].data
        kept = [slot for number, slot in enumerate(buffers.input_slots) if number not in buffers.changed]
        self._given = MemorySample(self._inputs, kept, self._count, secret)
        self._changed: list[torch.Tensor] = []
        """Inputs that calls change, as they left them."""
        self._written = MemorySample(self._outputs, buffers.output_slots, self._count, secret)
        self._answer: AnswerSample | None = None
        self.look: Callable[[str], None] | None = None
        """Looks at what calls have written; on a CPU only, where nobody else can say when they were over."""
        on_cpu = device.torch_device.type == "cpu"
        if on_cpu:
            changed = [buffers.input_slots[number] for number in buffers.changed]
            slots = (buffers.output_slots, buffers.state_slots)
            self._answer = AnswerSample(buffers.worker, *slots, self._count, secret)
            self._left = MemorySample(
                self._inputs, changed, self._count, secret, places=policy.SAMPLED_ELEMENTS
            )
            self.look = self._look
        self._watch = device.watch()
        self.foreign_device_ms = 0.0
        """Time other processes used the device while the worker was idle."""
        self.competing = 0
        self.frozen_ms = 0.0
        """Until the process stood still and a GPU was watched: as long as its system calls take."""
        self._is_warm = is_lone and on_cpu
        self.wakes_early = is_lone and not on_cpu and buffers.lone_gate is not None
        """True if the process wakes before its gate opens, as waking takes longer than a short call."""

    def begin(self) -> None:
        """Watch the device until inputs are published."""
        self._device.synchronize()
        self._watch.start()

    def rehearse(self) -> None:
        """Do all that is watched, without the watch."""
        self._write()
        self._given.moved()
        self._take_away()
        self._copies()
        self._written.moved()
        self._device.synchronize()

    def publish(self) -> None:
        """Write inputs, poison outputs."""
        self._write()
        self._device.finish()
        if not self.wakes_early:
            self.foreign_device_ms += self._watch.stop()
        if self._answer is not None:
            self.competing = competing_threads()

    def wake(self) -> None:
        """Watch the device while the process wakes behind its shut gate, where inputs are to be seen."""
        time.sleep(policy.WAKE_S)
        self.foreign_device_ms += self._watch.stop()

    def _write(self) -> None:
        self._source.publish(self._inputs, self._buffers.input_slots, self._recipe)
        self._given.look()
        for slots, count in ((self._buffers.output_slots, self._count), (self._buffers.state_slots, 1)):
            for slot in slots:
                self._outputs[slot["offset"] : slot["offset"] + slot["pitch"] * count].fill_(0xFF)
        if not self._is_warm and self._outputs.numel() < policy.CACHE_FLUSHING_BYTES:
            self._device.flush_cache()

    def _look(self, places: str) -> None:
        """Look at inputs that calls change, which is quick, and at outputs and state."""
        self._left.look()
        if self._answer is not None:
            self._answer.look(places)

    def withdraw(self) -> None:
        """Take the inputs away once the calls are over: nothing is left to compute while collecting."""
        try:
            self._freeze()
            if self._answer is not None and self._left.moved():
                raise CandidateFailed(Status.TAMPERED, _LATE)
            if self._given.moved():
                raise CandidateFailed(Status.INPUT_MUTATED, "inputs were changed by a timed call")
            self._take_away()
            self._device.finish()
        finally:
            self.foreign_device_ms += self._watch.stop()

    def _freeze(self) -> None:
        """Freeze the process under the eyes of the watch."""
        began = time.perf_counter()
        self._watch.start()
        self._buffers.worker.freeze()
        if self._answer is None:
            self._watch.wait()
            self.frozen_ms += (time.perf_counter() - began) * 1e3

    def _take_away(self) -> None:
        slots = [self._buffers.input_slots[number] for number in self._buffers.changed]
        self._changed = [stacked(self._inputs, slot, 0, self._count).clone() for slot in slots]
        self._source.withdraw(self._inputs, self._buffers.input_slots, self._recipe)

    def copy_outputs(self) -> list[torch.Tensor]:
        """Copy the outputs, and check that they were there at the answer and have not changed since.

        Behind them come the inputs that calls change, then the state after the last call, shape [1, *shape].
        """
        self._freeze()
        copies = self._copies()
        self._device.finish()
        self.foreign_device_ms += self._watch.stop()
        if self._written.moved():
            raise CandidateFailed(Status.TAMPERED, "outputs still changed after the process had answered")
        state = [stacked(self._outputs, slot, 0, 1).clone() for slot in self._buffers.state_slots]
        if self._answer is not None and self._answer.differs([*copies, *state]):
            raise CandidateFailed(Status.TAMPERED, _LATE)
        return [*copies, *self._changed, *state]

    def _copies(self) -> list[torch.Tensor]:
        self._written.look()
        slots = self._buffers.output_slots
        return [stacked(self._outputs, slot, 0, self._count).clone() for slot in slots]
