"""Processes under tools that watch memory and threads: a candidate runs in several at once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from kernelwright.evaluator.devices import open_device
from kernelwright.evaluator.ipc.contestant_messages import Finish
from kernelwright.evaluator.ipc.driver_requests import Start
from kernelwright.evaluator.referee.checks import policy
from kernelwright.evaluator.referee.correctness.shape_variants import ShapeVariant
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.driver_link import DriverLink
from kernelwright.evaluator.referee.worker.setup import (
    ModelSpec,
    begin_configuration,
    begin_load,
    construct,
    lay_out_call,
)
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status

_OVER: Final = object()


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One process under one tool."""

    tool: str
    variant: ShapeVariant
    complete: bool
    why: str
    """Why the report is not complete."""
    trouble: str
    """Failure of the candidate beside the tool's findings; empty when it ran to the end."""
    failures: list[tuple[Status, str]]
    remarks: list[str]
    builds: int

    @property
    def label(self) -> str:
        """Tool and sizes."""
        return f"{self.tool} ({self.variant.name})"


@dataclass(slots=True)
class _Watched:
    """One process under a tool, while it runs."""

    tool: str
    variant: ShapeVariant
    worker: WorkerProcess
    trouble: str = ""
    """Failure of the candidate."""
    ends_itself: bool = False
    """Its tool reports when the process has ended by itself."""
    report: ToolRun | None = None
    """The tool's findings, where they were read early."""

    def fail(self, failure: CandidateFailed) -> None:
        self.trouble = f"{failure.status.value}: {failure.detail}"


class TimeLimit:
    """Seconds that all processes of one candidate share; pauses and builds are not counted."""

    def __init__(self, driver: DriverLink, seconds: float) -> None:
        self._driver = driver
        self._deadline = time.monotonic() + seconds
        self._paused_s = driver.paused_s()
        self._builds_s = 0.0

    def extend(self, seconds: float) -> None:
        self._deadline += seconds

    def allow_builds(self, seconds: float) -> None:
        """Leave so many seconds more in all for builds, which processes wait for at the same time."""
        self._deadline += max(0.0, seconds - self._builds_s)
        self._builds_s = max(self._builds_s, seconds)

    def left(self) -> float:
        """Seconds that are left, one at least."""
        paused_s = self._driver.paused_s() - self._paused_s
        return max(1.0, self._deadline + paused_s - time.monotonic())


class ToolProcesses:
    """Starts processes under tools, and runs a candidate in them."""

    def __init__(self, driver: DriverLink) -> None:
        self._driver = driver

    def run(
        self,
        wanted: list[tuple[str, ShapeVariant]],
        source: str,
        limit: TimeLimit,
        *beside: Iterator[None],
    ) -> list[ToolRun]:
        """Run a candidate under tools, each at a shape, all at once; what is `beside` advances with them."""
        watched: list[_Watched] = []
        try:
            for tool, variant in wanted:
                watched.append(_Watched(tool, variant, self._start_under(tool)))  # closed below
            _advance([*(_load(each, source, limit) for each in watched), *beside])
            limit.extend(self._driver.hold_for_tools())
            for each in watched:
                each.worker.limit(limit.left())  # one after another is waited for
            _advance([_call(each, limit) for each in watched])
            for each in watched:
                if each.worker.lost:  # whatever it still runs on a device ends with it
                    each.report = self._read_report(each, limit)
            self._driver.hold(exclusive=False)  # ending and reporting take a host longer than calls a GPU
            _advance([_end(each, limit) for each in watched if each.report is None])
            return [each.report or self._read_report(each, limit) for each in watched]
        finally:
            for each in watched:
                each.worker.close()
            self._driver.hold(exclusive=False)

    def _read_report(self, watched: _Watched, limit: TimeLimit) -> ToolRun:
        wait_s = min(policy.REPORT_S, limit.left()) if watched.ends_itself else 0.0
        report, trouble = self._driver.report(watched.worker.id, wait_s), watched.trouble
        failures = [
            (Status(finding["status"]), str(finding["text"]))
            for finding in report.findings
            if finding["status"]
        ]
        remarks = [str(finding["text"]) for finding in report.findings if not finding["status"]]
        complete, why = report.complete, report.why
        if trouble and not failures:
            reasons = [why, f"the candidate failed under it: {trouble[:300]}"]
            complete, why = False, "; ".join(filter(None, reasons))
        return ToolRun(
            watched.tool,
            watched.variant,
            complete or bool(failures),
            why,
            trouble,
            failures,
            remarks,
            watched.worker.builds.count,
        )

    def _start_under(self, tool: str) -> WorkerProcess:
        """A process under a tool, in memory shared with the host: CUDA IPC may not work under it."""
        return WorkerProcess(self._driver, open_device("cpu"), Start(role="sanitized", tool=tool))


def _advance(steps: list[Iterator[None]]) -> None:
    """Take all of them to their ends, by turns: what each waits for goes on while others are waited for."""
    while steps:
        steps = [each for each in steps if next(each, _OVER) is not _OVER]


def _load(watched: _Watched, source: str, limit: TimeLimit) -> Iterator[None]:
    """Open the device in a process and load the candidate; yields while the process is at it."""
    worker, context = watched.worker, replace(watched.variant.context, load_s=limit.left())
    try:
        configured = begin_configuration(context, worker, sharing="cpu")
        yield
        limit.extend(configured())
        left_s, loaded = limit.left(), begin_load(context, worker, source, class_name="ModelNew")
        yield
        loaded()
        if worker.builds.count:
            limit.allow_builds(left_s - limit.left())
    except CandidateFailed as failure:
        watched.fail(failure)


def _call(watched: _Watched, limit: TimeLimit) -> Iterator[None]:
    """Construct and call, with arguments in private memory; once only where a call takes long."""
    worker, variant = watched.worker, watched.variant
    if watched.trouble:
        return
    try:
        construct(variant.context, worker, ModelSpec("ModelNew", "m", variant.seed, vary=False))
        buffers = lay_out_call(worker, "sanitize", variant.arguments, variant.output, private=True)
        for _ in range(policy.SANITIZED_CALLS):
            left_s = limit.left()
            called = buffers.begin_run("m", timeout_s=left_s)
            yield
            # Its own account counts that it was stopped; the limit, that others were waited for.
            if min(called().inner_ms / 1e3, left_s - limit.left()) > policy.SLOW_CALL_S:
                break
    except CandidateFailed as failure:
        watched.fail(failure)


def _end(watched: _Watched, limit: TimeLimit) -> Iterator[None]:
    """Let the process end: tools but `address` report then, if it ends in good order."""
    worker = watched.worker
    watched.ends_itself = watched.tool != "address"
    if watched.ends_itself:
        with contextlib.suppress(CandidateFailed):
            ended = worker.post(Finish(), min(policy.REPORT_S, limit.left()))
            yield
            ended()
