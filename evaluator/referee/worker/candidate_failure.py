"""Early ends of an evaluation: the exceptions, and the status that a worker's failure or death means."""

from __future__ import annotations

from dataclasses import dataclass, field
from signal import SIGBUS, SIGSEGV
from typing import Any

from kernelwright.evaluator.ipc.contestant_messages import Failed
from kernelwright.evaluator.ipc.driver_requests import BuildFinished, Ended
from kernelwright.evaluator.schema.evaluation import Status
from kernelwright.evaluator.schema.policy import DETAIL_CHARACTERS

_UNBUILT = "Error building extension"
"""Begins what torch, and our stand-in for its builder, raise where a build fails."""


class CandidateFailed(Exception):
    """The candidate's evaluation ends here."""

    def __init__(self, status: Status, detail: str, **facts: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.facts = facts

    @property
    def is_fault(self) -> bool:
        """True where its process, or its kernels, touched memory that is not mapped."""
        return bool(self.facts.get("fault"))


@dataclass(slots=True)
class BuildTally:
    """Outcome of the builds that a process asked for."""

    count: int = 0
    failed: bool = False
    timed_out: bool = False
    sanitizer_words: set[str] = field(default_factory=set)
    """Words in what was compiled by which it can hide from a sanitizer."""
    suspect: bool = False
    """True where a failure may be the fault of the lean headers a library was built with."""

    def note(self, built: BuildFinished) -> None:
        self.count += 1
        self.failed |= not built.ok and not built.refused
        self.timed_out |= built.timed_out
        self.suspect |= built.suspect


def death_of(report: Ended) -> CandidateFailed:
    """The failure that a process's end means, as the operating system tells it."""
    if report.timed_out:
        return CandidateFailed(Status.TIMED_OUT, "the evaluation's time is used up")
    if report.out_of_memory:
        return CandidateFailed(Status.OUT_OF_MEMORY, f"the process ran out of memory: {report.reason}")
    if report.signal:
        return CandidateFailed(
            Status.RUNTIME_ERROR,
            f"the process died: {report.reason}",
            fault=report.signal in (SIGSEGV, SIGBUS),
        )
    return CandidateFailed(
        Status.RUNTIME_ERROR, f"the process ended without answering (exit status {report.returncode})"
    )


def failure_of(answer: Failed, builds: BuildTally) -> CandidateFailed:
    """The failure that an exception in a process means."""
    text = answer.message[:DETAIL_CHARACTERS]
    status = _status_of(answer, text, builds)
    return CandidateFailed(
        status,
        f"{answer.type}: {text}",
        traceback=answer.traceback,
        fault=status is Status.MEMORY_ERROR,
    )


def _status_of(answer: Failed, text: str, builds: BuildTally) -> Status:
    if answer.out_of_memory:
        return Status.OUT_OF_MEMORY
    if "illegal memory access" in text or "misaligned address" in text:
        return Status.MEMORY_ERROR
    if builds.timed_out and _UNBUILT in text:
        return Status.TIMED_OUT
    if (builds.failed and _UNBUILT in text) or answer.compiling:
        return Status.COMPILE_ERROR
    return Status.RUNTIME_ERROR
