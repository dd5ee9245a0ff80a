"""State that all timing of one problem shares: inputs, memory for calls, and timers of a kind."""

from __future__ import annotations

import math
import random
import time

import torch

from kernelwright.evaluator.devices.policy import MEMORY_WAIT_S
from kernelwright.evaluator.referee.correctness.comparison import compare
from kernelwright.evaluator.referee.correctness.input_distributions import VARIANTS
from kernelwright.evaluator.referee.correctness.limits import TIMED, limit
from kernelwright.evaluator.referee.correctness.tolerance import expect
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.reference.reference import Arguments
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.batch_size import BatchSizer
from kernelwright.evaluator.referee.timing.claimed_time import Batch
from kernelwright.evaluator.referee.timing.timed_inputs import TimedInputs
from kernelwright.evaluator.referee.timing.timed_outputs import TimedOutputs
from kernelwright.evaluator.referee.timing.timing_loop import InterleavedTimer, Schedule
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.launch_gate import gate
from kernelwright.evaluator.referee.worker.quiet_device import yield_device
from kernelwright.evaluator.referee.worker.setup import CallMemory, ProblemContext, call_bytes, lay_out
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.config import EvaluationConfig, Math
from kernelwright.evaluator.schema.errors import DeviceFull


def _may_be_near(pool: TrialPool) -> bool:
    """Return whether a reference surely stays in its domain where its inputs move a little."""
    is_elementwise = pool.trace.terms.longest == 1 and len(pool.skipped) < len(VARIANTS)
    return is_elementwise or any(trial.near is not None for trial in pool.draws[0].trials)


class TimingSession:
    """Makes timers, and room for what they time."""

    def __init__(
        self,
        context: ProblemContext,
        pool: TrialPool,
        config: EvaluationConfig,
        secret: random.Random,
        *,
        others_evicted: bool,
    ) -> None:
        """Unless `others_evicted`, require memory for timed batches of some length.

        Raises:
            DeviceFull: only short batches have room.
        """
        self.device = context.device
        self.kind = context.device.torch_device.type
        self.others_evicted = others_evicted
        """True where others have made room on the device."""
        self.config, self.context, self.pool = config, context, pool
        self._secret = secret
        self._base = pool.bases[0]
        self._reference_ms, self._fastest_share = 0.0, 1.0
        near = _may_be_near(pool)
        self._inputs = TimedInputs(
            pool.starts(), pool.fresh, secret=secret, constant=pool.constant, may_be_near=near
        )
        if config.measure:
            pool.draw_unseen()
        terms = pool.trace.terms
        self.outputs = TimedOutputs(
            self._inputs,
            limit=limit(config.math.value, zero_mean=False, terms=terms),
            change=terms if config.math is Math.FP32 else None,
            is_correct=None if pool.trace.keeps_state else self._is_correct,
        )
        self.call_ms = self._about_ms() if self.kind == "cuda" else 0.0
        """About what a call of the reference takes on a GPU, in this process."""
        self._most = most = self._max_calls()
        self._lead = min(policy.LEAD_CALLS[self.kind], most - 1)
        self.sizer = BatchSizer(self.timer, kind=self.kind, most=most - self._lead)

    def lay_out(self, worker: WorkerProcess) -> CallBuffers:
        """Make room for a worker's timed calls of model `m`, while the device is held alone.

        Afterwards the worker is frozen until its turn: the next worker may have to wait for memory, while
        others have the device.

        Raises:
            torch.OutOfMemoryError: there is none, though others went on for a while.
        """
        until = time.monotonic() + MEMORY_WAIT_S
        while True:
            try:
                buffers = self._lay_out(worker)
                worker.freeze()
                return buffers
            except torch.OutOfMemoryError:
                if self.others_evicted or time.monotonic() > until:
                    raise
            yield_device(self.context, worker)

    def _lay_out(self, worker: WorkerProcess) -> CallBuffers:
        memory = CallMemory("time", self._most, wait_s=0.0)
        buffers = lay_out(worker, self._base.arguments, self._base.expected.output, memory)
        try:
            buffers.gate_block = worker.attach_word()
        except torch.OutOfMemoryError:
            buffers.free()
            raise
        shut = gate(worker.blocks, buffers.gate_block)
        if self.kind == "cpu" or self.device.waits_for(shut.word, 0):
            buffers.lone_gate = shut
        if self.kind != "cpu":
            buffers.queue_behind(buffers.lone_gate)
        return buffers

    def set_reference_time(self, reference_ms: float, *, fastest_share: float) -> None:
        """Take over the reference's time, a multiple of which extends the time-out of a call.

        `fastest_share` is the time of the fastest baseline, as a share of it.
        """
        self._reference_ms, self._fastest_share = reference_ms, fastest_share

    def timer(self, count: int, queued: bool) -> InterleavedTimer:
        """Make a timer of a candidate, or of any worker by itself, in batches of so many calls."""
        return self._timer(
            Schedule(
                batch=self._batch(count, queued),
                target_ms=self.config.target_ms,
                max_turns=self.config.max_turns,
                call_timeout_s=self.config.limits.call_s + policy.SLOW_CANDIDATE * self._reference_ms / 1e3,
                fastest_share=self._fastest_share,
            )
        )

    def trusted_timer(self, count: int, *, queued: bool) -> InterleavedTimer:
        """Make a timer for a few turns of two reference processes."""
        return self._timer(
            Schedule(
                batch=self._batch(count, queued),
                target_ms=0.0,
                max_turns=policy.TRUSTED_TURNS,
                call_timeout_s=policy.TRUSTED_CALL_S,
                untrusted=False,
            )
        )

    def _timer(self, schedule: Schedule) -> InterleavedTimer:
        unseen = self.pool.take_unseen
        return InterleavedTimer(
            self.device, self._inputs, self.outputs, schedule, self._secret, unseen=unseen
        )

    def _batch(self, count: int, queued: bool) -> Batch:
        return Batch(self.kind, count, queued=queued, lead=self._lead)

    def _is_correct(self, arguments: Arguments, outputs: list[torch.Tensor], limit: float) -> bool:
        """Compare outputs with exact ones of the timed model."""
        model, math_policy = self.pool.draws[0].model, self.config.math.value
        expected = expect(self.context.reference, model, arguments, math_policy, self.pool.trace)
        return compare(expected, outputs, limit=limit, trial=TIMED).mismatch is None

    def _about_ms(self) -> float:
        """Return the least of a few calls: others may use the device, and this process may be stopped."""
        model, arguments = self.pool.draws[0].model, self._base.arguments
        reference = self.context.reference
        reference.call(model, arguments)
        timer, found = self.device.timer(), []
        for _ in range(policy.ABOUT_CALLS):
            timer.start()
            reference.call(model, arguments)
            timer.stop()
            self.device.synchronize()
            found.append(timer.elapsed_ms())
        return min(found)

    def _max_calls(self) -> int:
        size = call_bytes(self._base.arguments, self._base.expected.output)
        most = policy.MAX_CALLS
        if self.call_ms:
            # Memory that no batch needs is memory that other evaluations lack.
            batch_ms = policy.BATCHES_HELD * policy.BATCH_MS[self.kind]
            most = min(most, max(policy.FEWEST_HELD, math.ceil(batch_ms / self.call_ms)))
        free, total = self.device.free_bytes(), self.device.total_bytes()
        now, alone = (
            min(policy.MEMORY_BYTES[self.kind], int(room * policy.MEMORY_SHARE)) for room in (free, total)
        )
        is_short = now < min(policy.SHORT_MEMORY_SHARE * alone, most * size)
        needs_room = self.config.measure and not self.others_evicted
        if needs_room and self.kind == "cuda" and is_short:
            # Room is made for as many calls as fit now: a problem opened in so little memory would be timed
            # in short batches for as long as it is open.
            raise DeviceFull(f"only {free >> 20} MiB of the device's memory are free")
        return self._inputs.max_calls(max(1, min(most, now // size)))
