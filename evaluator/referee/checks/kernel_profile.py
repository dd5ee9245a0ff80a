"""Attributes a candidate's time: which kernels ran, and whose they are. Decides nothing, never raises."""

from __future__ import annotations

from kernelwright.evaluator.analysis.attribution import TraceEvent, attribute
from kernelwright.evaluator.analysis.elf_symbols import Symbols
from kernelwright.evaluator.ipc.contestant_messages import Profile
from kernelwright.evaluator.ipc.driver_requests import FindSymbols
from kernelwright.evaluator.referee.checks.policy import PROFILE_S
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import VERIFIED, ProblemContext
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Attribution


def attribute_kernels(context: ProblemContext, worker: WorkerProcess, source: str) -> Attribution:
    """Attribute the time of a verified candidate's call; its worker may be gone afterwards."""
    symbols = Symbols.model_validate(context.driver.ask(FindSymbols(id=worker.id)).facts)
    try:
        worker.thaw()
        reply = worker.ask(Profile(layout=VERIFIED, model="m"), PROFILE_S)
    except CandidateFailed as failure:
        return attribute([], symbols, source, trouble=failure.detail[:200])
    return attribute([TraceEvent(*event) for event in reply.events], symbols, source)
