"""An open problem: everything its candidates share, and the device as each of their workers sees it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from kernelwright.evaluator.referee.checks.roofline import Roofline
from kernelwright.evaluator.referee.checks.sanitization import Sanitizer
from kernelwright.evaluator.referee.correctness.shape_variants import OtherShapes, evaluated
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.timing.candidate_timer import CandidateTimer
from kernelwright.evaluator.referee.timing.timing_session import TimingSession
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.quiet_device import hold_quiet
from kernelwright.evaluator.referee.worker.setup import ProblemContext, start
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.evaluation import Sanitization


class OpenProblem:
    """State of one problem under one policy; candidates come one after the other."""

    def __init__(
        self,
        context: ProblemContext,
        pool: TrialPool,
        config: EvaluationConfig,
        secret: random.Random,
        *,
        others_evicted: bool,
    ) -> None:
        """Take `others_evicted` and raise as `TimingSession` does."""
        self.context = context
        self.pool = pool
        self.config = config
        self.secret = secret
        self.roofline = Roofline(context, pool)
        if config.measure:
            self.roofline.count()
            context.device.trim()
        self.session = TimingSession(context, pool, config, secret, others_evicted=others_evicted)
        self.timer = CandidateTimer(self.session)
        self.variant = evaluated(context, pool, config.shapes or "full size")
        self.sanitizer = Sanitizer(self.variant, pool, config)
        self.sanitizer.keep_ready()
        self.other_shapes = OtherShapes(self.variant, call_s=config.limits.call_s)

    @property
    def on_gpu(self) -> bool:
        return self.context.device.torch_device.type == "cuda"

    def hold_device(self, *, exclusive: bool) -> float:
        """Wait for the device; return the seconds waited, which no worker's deadline includes.

        Once it is shared, processes end that would have kept it from others, or disturbed them.
        """
        if exclusive:
            return hold_quiet(self.context)
        waited_s = self.context.driver.hold(exclusive=False)
        self.timer.baselines.end_dismissed()
        return waited_s

    def release_device(self) -> None:
        self.context.driver.release()

    @contextmanager
    def worker(self, *, compile_s: float, full_headers: bool) -> Iterator[WorkerProcess]:
        """Start a candidate's worker, whose time runs from here; end it afterwards."""
        worker = start(self.context, role="candidate", full_headers=full_headers, compile_s=compile_s)
        with closing(worker):
            worker.limit(self.config.limits.total_s)
            worker.extend(self.hold_device(exclusive=False))
            yield worker

    @contextmanager
    def device_alone(self, worker: WorkerProcess) -> Iterator[None]:
        """Give a worker the device alone; share it afterwards.

        The worker is frozen while it waits. Afterwards others time first, which costs nothing: all that is
        left to do can be done beside another evaluation's rest, but not beside its timing. So it is frozen
        until it is asked again; what it has queued on a GPU is awaited by who times there.
        """
        worker.freeze()
        asked = time.monotonic()
        self.measure_baselines()
        self.hold_device(exclusive=True)
        worker.extend(time.monotonic() - asked)
        worker.thaw()
        yield
        self.free_memory()
        worker.freeze()
        self.release_device()
        worker.extend(self.hold_device(exclusive=False))

    def free_memory(self) -> None:
        """On a GPU, give back the baselines' memory for calls, as far as their processes still answer."""
        if self.on_gpu:
            with suppress(CandidateFailed):
                self.timer.baselines.free()

    def sanitize(self, source: str) -> Sanitization:
        """Run the sanitizers on a candidate that passed before."""
        try:
            return self.sanitizer.sanitize(source)
        finally:
            self.release_device()

    def prepare(self) -> None:
        """On a GPU, measure baselines before the first candidate starts.

        They count for all candidates; to freeze one would not stop what it has queued there.
        """
        if self.config.measure and self.on_gpu and not self.timer.baselines.known:
            self.measure_baselines()
            self.release_device()

    def measure_baselines(self) -> None:
        """Measure once what candidates are compared with; it has the device alone, too."""
        if self.timer.baselines.known:
            return
        self.timer.baselines.start_processes()
        self.hold_device(exclusive=True)
        self.timer.baselines.measure()
        if not self.on_gpu:  # their memory is what candidates are timed in; on a GPU ending takes a while
            self.timer.baselines.end_dismissed()
        with self.context.driver.step("measure peaks"):
            self.roofline.measure()
        self.free_memory()
