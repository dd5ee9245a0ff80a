"""Serves what a referee asks about its workers: starts, stops, looks into and ends them, builds, waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from kernelwright.evaluator.analysis.elf_symbols import read_symbols
from kernelwright.evaluator.analysis.ncu import COUNTERS, why_not
from kernelwright.evaluator.analysis.sanitizers import find_cuda_tool
from kernelwright.evaluator.driver import policy
from kernelwright.evaluator.driver.build_broker import BuildBroker
from kernelwright.evaluator.driver.evaluation_job import EvaluationJob
from kernelwright.evaluator.driver.processes.pausable_processes import PausableProcesses
from kernelwright.evaluator.driver.processes.process_launcher import ProcessLauncher, WorkerHandle
from kernelwright.evaluator.driver.processes.referee_process import Handover
from kernelwright.evaluator.driver.processes.warm_pool import WarmPool
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.ipc import driver_requests as wire
from kernelwright.evaluator.schema.errors import EvaluatorError

_WARM_ROLES = ("candidate", "baseline", "timed")


@dataclass(slots=True)
class WorkerService:
    """The workers of one referee, which outlive an evaluation; `ipc/driver_requests` explains requests."""

    launcher: ProcessLauncher
    pool: WarmPool
    tool_pool: Callable[[str], WarmPool]
    """The pool of processes under a sanitizer."""
    lock: DeviceLock
    pauses: PausableProcesses
    builds: BuildBroker
    workers: dict[int, WorkerHandle] = field(default_factory=dict)

    def worker(self, number: int) -> WorkerHandle:
        """The worker of a number; raises EvaluatorError where the referee never started it."""
        if number not in self.workers:
            raise EvaluatorError(f"the referee asked for process {number}, which it never started")
        return self.workers[number]

    def expect(self, request: wire.Expect) -> None:
        (self.pool if request.tool is None else self.tool_pool(request.tool)).expect(request.count)

    def start(self, request: wire.Start, job: EvaluationJob) -> Handover:
        """Hand over a process: one started ahead of time, if it will do."""
        job.full_headers |= request.full_headers
        if request.role == "candidate":
            job.start_clock(self.launcher.config.limits.total_s)
        worker, pool = None, self._pool_for(request)
        if pool is not None:
            if request.tool is not None:
                pool.expect(1)  # nobody said before that it would be needed
            worker = pool.take(wait=self._may_wait())
            if self.launcher.device != "cpu" or not self.launcher.config.measure:
                pool.replenish()  # on a CPU it would disturb times
        if worker is None:
            worker = self.launcher.start(request.role, threads=request.threads, tool=request.tool)
        worker.role = request.role
        self.workers[worker.number] = worker
        return Handover(wire.Started(id=worker.number, set_up=worker.is_set_up), (worker.channel_end,))

    def _pool_for(self, request: wire.Start) -> WarmPool | None:
        """The pool that may have such a process; on a CPU, tools are seldom asked for."""
        if request.role in _WARM_ROLES:
            return self.pool
        if request.role != "sanitized" or self.launcher.device == "cpu":
            return None
        return self.pool if request.tool is None else self.tool_pool(request.tool)

    def _may_wait(self) -> bool:
        """While this keeps others from the device, waiting for a process that needs it would never end."""
        return self.lock.held == "" or (self.lock.held == "shared" and self.lock.is_preemptible)

    def kill(self, request: wire.Kill, job: EvaluationJob) -> wire.Ended:
        worker = self.worker(request.id)
        if worker.watch is not None:
            self.pauses.wait(worker.sandboxed, policy.TOOL_REPORT_S)
        elif request.ended:
            self.pauses.wait(worker.sandboxed, policy.LAST_BREATH_S)
        report = worker.end()
        if worker.role == "candidate":
            job.note_output(worker.sandboxed.output())
        return wire.Ended(
            returncode=report.returncode,
            signal=report.signal,
            out_of_memory=report.out_of_memory,
            reason=report.reason,
            timed_out=job.timed_out and worker.role == "candidate",
        )

    def freeze(self, request: wire.Freeze) -> None:
        self.worker(request.id).sandboxed.freeze()

    def thaw(self, request: wire.Thaw) -> None:
        self.worker(request.id).sandboxed.thaw()

    def peek(self, request: wire.Peek) -> wire.Peeked:
        sandboxed = self.worker(request.id).sandboxed
        found = sandboxed.peek(request.places)
        return wire.Peeked(
            found=None if found is None else [piece.hex() for piece in found],
            shared=sandboxed.shares_memory(address for address, _ in request.places),
        )

    def open_memory(self, request: wire.OpenMemory) -> Handover:
        memory = self.worker(request.id).sandboxed.open_memory()
        return Handover(wire.MemoryOpened(opened=memory is not None), () if memory is None else (memory,))

    def open_freezer(self, request: wire.OpenFreezer) -> Handover:
        """Open what stops a process for its referee; not on a GPU, where pauses stop it as well."""
        freezer = self.worker(request.id).sandboxed.freezer()
        if freezer is None or self.launcher.device != "cpu":
            return Handover(wire.FreezerOpened(opened=False))
        try:
            with ExitStack() as opened:
                control = opened.enter_context(freezer.control.open("wb", buffering=0))
                state = opened.enter_context(freezer.state.open("rb", buffering=0))
                opened.pop_all()
        except OSError:  # it has just ended
            return Handover(wire.FreezerOpened(opened=False))
        words = {"stop": freezer.stop, "go": freezer.go, "stopped": freezer.stopped}
        return Handover(wire.FreezerOpened(opened=True, **words), (control, state))

    def paused(self, request: wire.FindPauses) -> wire.Paused:
        return wire.Paused(seconds=self.pauses.paused_s)

    def symbols(self, request: wire.FindSymbols) -> wire.Facts:
        symbols = read_symbols(self.worker(request.id).supply.folder)
        return wire.Facts(facts=symbols.model_dump(mode="json"))

    def missing_sanitizers(self, request: wire.FindSanitizers) -> wire.Missing:
        return wire.Missing(missing=self.launcher.sanitizers().missing(self.launcher.device))

    def missing_counters(self, request: wire.FindCounters) -> wire.Missing:
        return wire.Missing(missing=why_not(find_cuda_tool(COUNTERS)))

    def report(self, request: wire.ReadReport, job: EvaluationJob) -> wire.ToolReport:
        worker = self.worker(request.id)
        if worker.watch is None:
            raise EvaluatorError(f"the referee asked what a tool saw of process {request.id}, under none")
        self.pauses.wait(worker.sandboxed, request.wait_s)
        ended = worker.sandboxed.kill()
        report = worker.watch.report(worker.sandboxed.output(), job.source)
        worker.watch.close()
        worker.watch = None
        return wire.ToolReport(
            **{"counters": []} | report, out_of_memory=ended.out_of_memory, ended=ended.reason
        )

    def build(self, request: wire.BuildLibrary, job: EvaluationJob) -> wire.BuildFinished:
        return self.builds.build(request, self.worker(request.id), job)

    def hold(self, request: wire.Hold, job: EvaluationJob) -> wire.DeviceHeld:
        """Wait for the device; the candidate's time is extended by that."""
        asked = time.monotonic()
        if request.anew and not self.lock.is_preemptible:
            self.lock.release()
        if request.exclusive:
            self.lock.hold_alone(after_tools=request.after_tools)
        else:
            self.lock.share()
        return _held(time.monotonic() - asked, job)

    def hold_for_tools(self, request: wire.HoldForTools, job: EvaluationJob) -> wire.DeviceHeld:
        asked, paused_s = time.monotonic(), self.pauses.paused_s
        self.lock.hold_for_tools()
        # Pauses meanwhile are allowed for by themselves.
        return _held(max(0.0, time.monotonic() - asked - (self.pauses.paused_s - paused_s)), job)

    def release(self, request: wire.Release) -> None:
        self.lock.release()

    def end_candidates(self) -> None:
        """Kill every process that holds a candidate to be timed."""
        for worker in self.workers.values():
            if worker.role == "candidate":
                worker.sandboxed.kill()

    def close(self) -> None:
        """End all of them."""
        for worker in self.workers.values():
            worker.end()


def _held(waited_s: float, job: EvaluationJob) -> wire.DeviceHeld:
    job.extend(waited_s)
    return wire.DeviceHeld(waited_s=waited_s)
