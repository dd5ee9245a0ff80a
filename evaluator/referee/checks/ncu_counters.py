"""Hardware counters of one call: a candidate that passed, once more in a fresh process under ncu.

Advice for making it faster: nothing here decides, and nothing is raised about the candidate.
"""

from __future__ import annotations

import time

from pydantic import ValidationError

from kernelwright.evaluator.devices import open_device
from kernelwright.evaluator.ipc.contestant_messages import CountCounters, Finish
from kernelwright.evaluator.ipc.driver_requests import FindCounters, Start
from kernelwright.evaluator.referee.checks.policy import COUNTED_CALL_S, REPORT_S
from kernelwright.evaluator.referee.correctness.shape_variants import evaluated
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import (
    ModelSpec,
    ProblemContext,
    begin_configuration,
    lay_out_call,
    load_model,
)
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Counters, KernelCounters


class CounterCollector:
    """Counts for candidates of one problem, at the evaluated shapes."""

    def __init__(self, context: ProblemContext, pool: TrialPool) -> None:
        self._context = context
        self._variant = evaluated(context, pool, "evaluated")

    def count(self, source: str, *, compile_s: float) -> Counters:
        """Count one call; `compile_s` is what its first call may take on top to compile kernels."""
        missing = self._context.driver.ask(FindCounters()).missing
        if missing:
            return Counters(ran=False, reason=missing)
        started = time.monotonic()
        worker = WorkerProcess(self._context.driver, open_device("cpu"), Start(role="counted", tool="ncu"))
        trouble = ""
        try:
            try:
                self._call(worker, source, compile_s)
            except CandidateFailed as failure:
                trouble = f"the candidate failed under ncu: {failure.status.value}: {failure.detail[:300]}"
            wait_s = 0.0 if worker.lost else REPORT_S
            report = self._context.driver.report(worker.id, wait_s)
        finally:
            worker.close()
        try:
            kernels = tuple(KernelCounters.model_validate(one) for one in report.counters)
        except ValidationError as error:
            kernels, trouble = (), f"ncu's numbers make no sense: {str(error)[:200]}"
        return Counters(
            ran=bool(kernels),
            reason="" if kernels else trouble or report.why,
            kernels=kernels,
            seconds=round(time.monotonic() - started, 2),
        )

    def _call(self, worker: WorkerProcess, source: str, compile_s: float) -> None:
        """Load, construct, call once, and once more with the counters on.

        Raises:
            CandidateFailed: the candidate failed on the way.
        """
        context, variant = self._context, self._variant
        begin_configuration(context, worker, sharing="cpu")()
        load_model(context, worker, source, ModelSpec("ModelNew", "m", variant.seed, vary=False))
        lay_out_call(worker, "count", variant.arguments, variant.output, private=True)
        context.driver.hold(exclusive=False)
        worker.ask(CountCounters(layout="count", model="m"), COUNTED_CALL_S + compile_s)
        worker.ask(Finish(), REPORT_S)
