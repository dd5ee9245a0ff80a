"""The reference compiled by torch: in a process of its own, while candidates are built and verified."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from kernelwright.evaluator.ipc.driver_requests import Expect
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import ProblemContext, lay_out_call, load_model, start
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status


@dataclass(frozen=True, slots=True)
class _Compiling:
    """A process in its first call, which compiles."""

    worker: WorkerProcess
    wait: Callable[[], object]
    """Waits until that call is over."""

    def compiled(self) -> WorkerProcess:
        """Wait until that call is over; return the process, or end it if the call failed."""
        try:
            self.worker.thaw()
            self.wait()
        except BaseException:
            self.worker.close()
            raise
        return self.worker


class CompiledReference:
    """Compiles the reference, in a second process if the first fails."""

    def __init__(self, context: ProblemContext, pool: TrialPool) -> None:
        self._context = context
        self._pool = pool
        self._compiling: _Compiling | None = None
        self._ready: WorkerProcess | None = None
        self._failures = 0
        self._failure: CandidateFailed | None = None
        """The last failure."""

    @property
    def may_be_tried(self) -> bool:
        """False once compiling failed too often."""
        return self._failures < policy.COMPILE_ATTEMPTS

    def begin(self) -> bool:
        """Begin to compile, or go on, while the device is shared; False if that is over, or failed before.

        The process goes on by itself until `pause`, or until somebody waits for its end.
        """
        if self._compiling is not None:
            self._context.driver.hold(exclusive=False)
            self._compiling.worker.thaw()
        elif self._ready is None and not self._failures:
            self._context.driver.ask(Expect(count=1))
            with contextlib.suppress(CandidateFailed, torch.OutOfMemoryError):
                self._compiling = self._compile(shares=True)
        return self._compiling is not None

    def pause(self) -> None:
        """Stop compiling, as the device is given back."""
        if self._compiling is not None:
            self._compiling.worker.freeze()

    def finish(self) -> None:
        """Wait until a process holds the compiled reference, or compiling failed too often.

        A failure of a process that began beside a candidate does not count: the candidate may be the cause.
        """
        while self._ready is None and self.may_be_tried:
            begun, self._compiling = self._compiling, None
            is_fresh = begun is None
            try:
                self._ready = (begun or self._compile(shares=True)).compiled()
            except (CandidateFailed, torch.OutOfMemoryError) as error:
                if is_fresh:
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
        return self._compile(shares=False).compiled()

    def note(self, error: CandidateFailed | torch.OutOfMemoryError) -> CandidateFailed:
        """Count a failure of the compiled reference, and return it."""
        if not isinstance(error, CandidateFailed):
            error = CandidateFailed(Status.OUT_OF_MEMORY, str(error))
        self._failure = error
        self._failures += 1
        return error

    def close(self) -> None:
        """End its processes."""
        if self._compiling is not None:
            self._compiling.worker.close()
        if self._ready is not None:
            self._ready.close()
        self._compiling = self._ready = None

    def _compile(self, *, shares: bool) -> _Compiling:
        """Start a process and begin its first call, which compiles.

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
            return _Compiling(worker, buffers.begin_run("m", timeout_s=policy.COMPILE_S))
        except BaseException:
            worker.close()
            raise
