"""Serves a referee's requests about processes: starts, stops, looks into and ends its workers."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelwright.evaluator.analysis.elf_symbols import read_symbols
from kernelwright.evaluator.analysis.ncu import find_ncu, why_not
from kernelwright.evaluator.driver import policy
from kernelwright.evaluator.driver.evaluation_job import EvaluationJob
from kernelwright.evaluator.driver.processes.process_launcher import ProcessLauncher, WorkerHandle
from kernelwright.evaluator.driver.processes.referee_process import Handover
from kernelwright.evaluator.driver.processes.warm_pool import WarmPool
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.ipc.driver_requests import (
    Ended,
    Expect,
    FindCounters,
    FindSanitizers,
    FindSymbols,
    Freeze,
    Kill,
    Missing,
    Peek,
    Peeked,
    ReadReport,
    Start,
    Started,
    SymbolsFound,
    Thaw,
    ToolReport,
)
from kernelwright.evaluator.ipc.messages import Done
from kernelwright.evaluator.schema.errors import EvaluatorError

_WARM_ROLES = ("candidate", "baseline", "timed")


@dataclass(slots=True)
class WorkerService:
    """The workers of one referee; they outlive an evaluation."""

    launcher: ProcessLauncher
    pool: WarmPool
    lock: DeviceLock
    workers: dict[int, WorkerHandle] = field(default_factory=dict)

    def worker(self, number: int) -> WorkerHandle:
        """The worker of a number.

        Raises:
            EvaluatorError: the referee never started it.
        """
        if number not in self.workers:
            raise EvaluatorError(f"the referee asked for process {number}, which it never started")
        return self.workers[number]

    def expect(self, request: Expect) -> Done:
        """Begin to start processes that will be asked for soon."""
        self.pool.expect(request.count)
        return Done()

    def start(self, request: Start, job: EvaluationJob) -> Handover:
        """Hand over a process: one started ahead of time, if it will do."""
        if request.real_headers:
            job.begin_with_real_headers(self.launcher.config.limits.total_s)
        launched = None
        if request.role in _WARM_ROLES:
            # While this holds the device, waiting for a process that waits for the device would never end.
            launched = self.pool.take(wait=self.lock.held == "")
            if self.launcher.device != "cpu" or not self.launcher.config.measure:
                self.pool.replenish()  # on a CPU it would disturb times
        if launched is None:
            launched = self.launcher.start(request.role, threads=request.threads, tool=request.tool)
        worker = launched.process
        worker.role = request.role
        self.workers[worker.number] = worker
        return Handover(Started(id=worker.number, set_up=launched.is_set_up), launched.end)

    def kill(self, request: Kill, job: EvaluationJob) -> Ended:
        """End a process and say how it ended."""
        worker = self.worker(request.id)
        if worker.watch is not None:
            worker.sandboxed.wait(policy.TOOL_REPORT_S)
        elif request.ended:
            worker.sandboxed.wait(policy.LAST_BREATH_S)
        report = worker.end()
        if worker.role == "candidate":
            job.note_output(worker.sandboxed.output())
        return Ended(
            returncode=report.returncode,
            signal=report.signal,
            out_of_memory=report.out_of_memory,
            reason=report.reason,
            timed_out=job.timed_out and worker.role == "candidate",
        )

    def freeze(self, request: Freeze) -> Done:
        """Stop every task of a process."""
        self.worker(request.id).sandboxed.freeze()
        return Done()

    def thaw(self, request: Thaw) -> Done:
        """Let a process run again."""
        self.worker(request.id).sandboxed.thaw()
        return Done()

    def peek(self, request: Peek) -> Peeked:
        """Read memory of a process."""
        found = self.worker(request.id).sandboxed.peek(request.places)
        return Peeked(found=None if found is None else [piece.hex() for piece in found])

    def symbols(self, request: FindSymbols) -> SymbolsFound:
        """Read the symbols of what was built for a process."""
        symbols = read_symbols(self.worker(request.id).libraries)
        return SymbolsFound(symbols=symbols.model_dump(mode="json"))

    def missing_sanitizers(self, request: FindSanitizers) -> Missing:
        """Say what the sanitizers lack here."""
        del request
        return Missing(missing=self.launcher.sanitizers().missing(self.launcher.device))

    def missing_counters(self, request: FindCounters) -> Missing:
        """Say what the counter tool lacks here."""
        del request
        return Missing(missing=why_not(find_ncu()))

    def report(self, request: ReadReport, job: EvaluationJob) -> ToolReport:
        """End a process and read what the tool around it wrote."""
        worker = self.worker(request.id)
        if worker.watch is None:
            return ToolReport(
                complete=False,
                why="nothing watched this process",
                findings=[],
                counters=[],
                out_of_memory=False,
                ended="",
            )
        worker.sandboxed.wait(request.wait_s)
        ended = worker.sandboxed.kill()
        report = worker.watch.report(worker.sandboxed.output(), job.source)
        worker.end_watch()
        return ToolReport(**{"counters": []} | report, out_of_memory=ended.out_of_memory, ended=ended.reason)

    def end_candidates(self) -> None:
        """Kill every process that holds a candidate to be timed."""
        for worker in self.workers.values():
            if worker.role == "candidate":
                worker.sandboxed.kill()

    def close(self) -> None:
        """End all of them."""
        for worker in self.workers.values():
            worker.end()
