"""The reference compiled by torch, in a process of its own."""

from __future__ import annotations

from dataclasses import replace

import torch

from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import ProblemContext, lay_out_call, load_model, start
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status


class CompiledReference:
    """Compiles the reference, in a second process if the first fails."""

    def __init__(self, context: ProblemContext, pool: TrialPool) -> None:
        self._context = context
        self._pool = pool
        self._ready: WorkerProcess | None = None
        self._failures = 0
        self._failure: CandidateFailed | None = None
        """The last failure."""

    @property
    def may_be_tried(self) -> bool:
        """False once compiling failed too often."""
        return self._failures < policy.COMPILE_ATTEMPTS

    def prepare(self) -> None:
        """Compile while others may use the device, until a process holds it or compiling failed too often."""
        while self._ready is None and self.may_be_tried:
            try:
                self._ready = self._compile(shares=True)
            except (CandidateFailed, torch.OutOfMemoryError) as error:
                self.note(error)

    def take(self) -> WorkerProcess:
        """Hand over a process that holds it as model `m`: the one that is ready, or else a new one.

        Raises:
            CandidateFailed: compiling failed too often, or again.
        """
        if self._ready is not None:
            worker, self._ready = self._ready, None
            return worker
        if self._failure is not None and not self.may_be_tried:
            raise self._failure
        return self._compile(shares=False)

    def note(self, error: CandidateFailed | torch.OutOfMemoryError) -> CandidateFailed:
        """Count a failure of the compiled reference, and return it."""
        if not isinstance(error, CandidateFailed):
            error = CandidateFailed(Status.OUT_OF_MEMORY, str(error))
        self._failure = error
        self._failures += 1
        return error

    def close(self) -> None:
        """End its process."""
        if self._ready is not None:
            self._ready.close()
            self._ready = None

    def _compile(self, *, shares: bool) -> WorkerProcess:
        """Start a process and make its first call, which compiles.

        The call is on inputs of the problem: a reference need not run on zeros. A process that `shares` the
        device lets others that wait for it go first.
        """
        worker = start(self._context, role="baseline")
        if shares:
            self._context.driver.hold(exclusive=False, anew=True)
        try:
            spec = replace(self._pool.draws[0].spec("Model"), compiled=True)
            load_model(self._context, worker, self._context.reference.source, spec)
            base = self._pool.bases[0]
            buffers = lay_out_call(worker, "first", base.arguments, base.expected.output)
            self._context.device.synchronize()
            buffers.run("m", timeout_s=policy.COMPILE_S)
        except BaseException:
            worker.close()
            raise
        return worker
