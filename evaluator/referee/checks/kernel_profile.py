"""A passed candidate's call under a profiler: which kernels ran, whose they are, and their hardware counters.

Recorded for a reader, and advice for making it faster: nothing here decides, and nothing is raised about the
candidate.
"""

from __future__ import annotations

import time
from contextlib import closing

from pydantic import ValidationError

from kernelwright.evaluator.analysis.attribution import TraceEvent, attribute
from kernelwright.evaluator.analysis.elf_symbols import Symbols
from kernelwright.evaluator.devices import open_device
from kernelwright.evaluator.ipc.contestant_messages import CountCounters, Finish, Profile
from kernelwright.evaluator.ipc.driver_requests import FindCounters, FindSymbols, Start
from kernelwright.evaluator.referee.checks import policy
from kernelwright.evaluator.referee.correctness.shape_variants import ShapeVariant
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import (
    VERIFIED,
    ModelSpec,
    ProblemContext,
    begin_configuration,
    lay_out_call,
    load_model,
)
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Attribution, Counters, KernelCounters


def attribute_kernels(context: ProblemContext, worker: WorkerProcess, source: str) -> Attribution:
    """Attribute the time of a verified candidate's call; its worker may be gone afterwards."""
    symbols = Symbols.model_validate(context.driver.ask(FindSymbols(id=worker.id)).facts)
    try:
        worker.thaw()
        reply = worker.ask(Profile(layout=VERIFIED, model="m"), policy.PROFILE_S)
    except CandidateFailed as failure:
        return attribute([], symbols, source, trouble=failure.detail[:200])
    return attribute([TraceEvent(*event) for event in reply.events], symbols, source)


def count_counters(variant: ShapeVariant, source: str, compile_s: float) -> Counters:
    """Count one call of a candidate, in a fresh process under ncu.

    `compile_s` is what its first call may take on top to compile kernels.
    """
    driver = variant.context.driver
    missing = driver.ask(FindCounters()).missing
    if missing:
        return Counters(ran=False, reason=missing)
    started, trouble = time.monotonic(), ""
    with closing(WorkerProcess(driver, open_device("cpu"), Start(role="counted", tool="ncu"))) as worker:
        try:
            _call(variant, worker, source, compile_s)
        except CandidateFailed as failure:
            trouble = f"the candidate failed under ncu: {failure.status.value}: {failure.detail[:300]}"
        report = driver.report(worker.id, 0.0 if worker.lost else policy.REPORT_S)
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


def _call(variant: ShapeVariant, worker: WorkerProcess, source: str, compile_s: float) -> None:
    """Load, construct, call once, and once more with the counters on."""
    context = variant.context
    begin_configuration(context, worker, sharing="cpu")()
    load_model(context, worker, source, ModelSpec("ModelNew", "m", variant.seed, vary=False))
    lay_out_call(worker, "count", variant.arguments, variant.output, private=True)
    context.driver.hold(exclusive=False)
    worker.ask(CountCounters(layout="count", model="m"), policy.COUNTED_CALL_S + compile_s)
    worker.ask(Finish(), policy.REPORT_S)
