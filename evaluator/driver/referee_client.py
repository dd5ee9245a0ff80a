"""The driver's end of one referee: starts it and the processes it asks for, and serves its requests."""

from __future__ import annotations

import os
import shutil
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kernelwright.evaluator.analysis.cubin_resources import read_resources
from kernelwright.evaluator.analysis.elf_symbols import read_symbols
from kernelwright.evaluator.analysis.ncu import find_ncu, why_not
from kernelwright.evaluator.analysis.sanitizers import ADDRESS, Sanitizers, find_sanitizers
from kernelwright.evaluator.backends.registry import find_backend
from kernelwright.evaluator.building.build_request import (
    BuildOutcome,
    BuildRequest,
    InvalidRequest,
    parse_request,
)
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.driver.evaluation_job import EvaluationJob
from kernelwright.evaluator.driver.measurement_cache import MeasurementStore
from kernelwright.evaluator.driver.process_launcher import ProcessLauncher, WorkerHandle
from kernelwright.evaluator.driver.runtime_image import RuntimeImage
from kernelwright.evaluator.driver.warm_pool import WarmPools
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.host.hardware import gpu_of, threads, wait_policy
from kernelwright.evaluator.ipc.channel import Channel, ChannelClosed, ChannelError, Message
from kernelwright.evaluator.sandbox import Launcher, SandboxedProcess
from kernelwright.evaluator.schema.candidate import Candidate
from kernelwright.evaluator.schema.config import EvaluationConfig, Passes
from kernelwright.evaluator.schema.errors import DeviceFull, EvaluatorError, ProblemError
from kernelwright.evaluator.schema.evaluation import Build, Stage
from kernelwright.evaluator.schema.problem import Problem

_OPEN_S = 900.0
_REPORT_S = 15.0
_LAST_BREATH_S = 1.0
_ASIDE = ("sanitized", "counted", "timed")
"""Processes that build what the candidate has built already."""
_MOST_FAILED: Final = 64
"""Builds of one evaluation that came to nothing and are recorded all the same: the first ones."""


@dataclass(frozen=True, slots=True)
class EvaluatorResources:
    """What referees of one evaluator share."""

    launcher: Launcher
    builder: Builder
    staging: RuntimeImage
    memory: MeasurementStore
    stocks: WarmPools = field(default_factory=WarmPools)


class RefereeClient:
    """One running referee with one problem open."""

    def __init__(
        self,
        workshop: EvaluatorResources,
        problem: Problem,
        config: EvaluationConfig,
        device: str,
        job: EvaluationJob,
    ) -> None:
        """Start a referee and let it prepare the problem, for this job first.

        Raises:
            Stopped: the job's `stop` was set meanwhile.
            DeviceFull: the problem does not fit into what is free of the device's memory.
            ProblemError: the problem does not run here.
            EvaluatorError: the referee failed.
        """
        self._workshop = workshop
        self._config = config
        self.device = device
        """Such as `cuda:0`."""
        self._threads = threads(config.threads)
        self._processes: dict[int, WorkerHandle] = {}
        self._lease = DeviceLock(device)
        self._starter = ProcessLauncher(
            launcher=workshop.launcher,
            staging=workshop.staging,
            config=config,
            device=device,
            threads=self._threads,
            sanitizers=self._sanitizers,
        )
        self._spares = workshop.stocks.of(self._starter)
        self._job = EvaluationJob(on_stage=lambda stage: None, stop=job.stop)
        try:
            if device == "cpu":
                self._lease.share()  # importing torch takes a core
            self._channel, self._sandboxed = self._spawn_referee()
        except BaseException:
            self._lease.close()
            raise
        self._spares.replenish()
        self.report = self._sandboxed.report
        self._key = f"{problem.sha}:{config.shapes}:{config.dtype}:{config.math}:{device}:{self._threads}"
        if config.passes is not Passes.FORWARD:
            self._key += f":{config.passes}"
        self._key += "".join(f":{value}" for value in wait_policy().values())
        try:
            self.facts = self._converse(
                {
                    "op": "open",
                    "problem": problem.id,
                    "source": problem.source,
                    "overrides": problem.overrides(config.shapes),
                    "config": config.model_dump(mode="json"),
                    "device": "cpu" if device == "cpu" else "cuda",
                    "threads": self._threads,
                    "alone": job.alone,
                }
            )
            self._key += f":{self.facts['torch']}:{self.facts['device_name']}"
        except BaseException:
            self.close()
            raise
        finally:
            self._lease.release()

    def judge(self, candidate: Candidate, job: EvaluationJob) -> Message:
        """Have one candidate judged; returns the referee's answer.

        Raises:
            ProblemError, MachineError, EvaluatorError: nothing can be said about the candidate.
        """
        self._job = job
        job.source = candidate.source
        job.deadline = time.monotonic() + self._config.limits.total_s
        compiles = find_backend(candidate.backend).compiles_when_called
        compile_s = self._config.limits.compile_s if compiles else 0.0
        before_s = self._lease.alone_s
        asked = {"source": candidate.source, "compile_s": compile_s, "alone": job.alone}
        answer = self._converse({"op": "judge", **asked})
        job.device_s = self._lease.alone_s - before_s
        self._spares.replenish()
        return answer

    def sanitize(self, candidate: Candidate, job: EvaluationJob) -> Message:
        """Have the sanitizers run on one candidate, and nothing else; raises what `judge` raises."""
        self._job = job
        job.source = candidate.source
        return self._converse({"op": "sanitize", "source": candidate.source})

    def close(self) -> None:
        """Kill the referee and everything started for it."""
        self._channel.close()
        self._sandboxed.kill()
        for number in list(self._processes):
            self._kill(number)
        self._lease.close()

    def _spawn_referee(self) -> tuple[Channel, SandboxedProcess]:
        ours, theirs = socket.socketpair()
        staging = self._workshop.staging
        with theirs:
            sandboxed = self._workshop.launcher.start(
                staging.command("referee", theirs.fileno()),
                staging.referee_policy(device=self.device, threads=self._threads),
                fds=(theirs.fileno(),),
            )
        return Channel(ours), sandboxed

    def _converse(self, message: Message) -> Message:
        with self._job.stop.reaching(self._sandboxed):
            return self._exchange(message)

    def _exchange(self, message: Message) -> Message:
        """Send one message and serve requests until its answer arrives."""
        serve = {
            "start": self._start,
            "expect": self._expect,
            "kill": lambda asked: self._kill(int(asked["id"]), patience_s=_REPORT_S, ended="ended" in asked),
            "freeze": self._freeze,
            "thaw": self._thaw,
            "peek": self._peek,
            "build": self._build,
            "stage": self._stage,
            "hold": self._hold,
            "release": self._release,
            "recall": lambda request: self._workshop.memory.recall(self._memory_key(request)),
            "remember": self._remember,
            "symbols": self._symbols,
            "sanitizers": lambda request: {"missing": self._sanitizers().missing(self.device)},
            "counters": lambda request: {"missing": why_not(find_ncu())},
            "report": self._report,
        }
        try:
            self._channel.send(message)
            while True:
                request = self._channel.receive(_OPEN_S + self._config.limits.total_s)
                handler = serve.get(request["op"])
                if handler is None:
                    return self._answer(request)
                self._enforce_deadline()
                reply = handler(request)
                fds = reply.pop("fds", [])
                self._channel.send(reply, fds)
                for fd in fds:
                    os.close(fd)
        except ChannelError as error:
            raise self._lost(error) from error

    def _answer(self, reply: Message) -> Message:
        match reply["op"]:
            case "opened" | "judged" | "sanitized":
                return reply
            case "device_full":
                raise DeviceFull(str(reply["message"]))
            case "problem_error":
                raise ProblemError(str(reply["message"]))
            case _:
                raise EvaluatorError(f"the referee failed: {reply.get('message')}")

    def _lost(self, error: ChannelError) -> EvaluatorError:
        report = self._sandboxed.kill()
        if report.out_of_memory:
            return ProblemError(f"the reference ran out of memory; choose smaller --shapes ({report.reason})")
        if not isinstance(error, ChannelClosed):
            return EvaluatorError(f"the referee does not answer: {error}")
        tail = self._sandboxed.output()[-2000:].strip()
        return EvaluatorError(f"the referee died ({report.reason}){': ' + tail if tail else ''}")

    def _enforce_deadline(self) -> None:
        """End a candidate that has used up its evaluation's time, whatever it is doing."""
        if time.monotonic() < self._job.deadline or self._job.timed_out:
            return
        self._job.timed_out = True
        for process in self._processes.values():
            if process.role == "candidate":
                process.sandboxed.kill()

    def _expect(self, request: Message) -> Message:
        self._spares.expect(int(request["count"]))
        return {}

    def _start(self, request: Message) -> Message:
        """Hand over a process: one started ahead of time, if it will do."""
        tool, count = request.get("tool"), request.get("threads")
        if request.get("real_headers"):
            # A second judgement, because the first may have been our fault: it gets time of its own.
            self._job.real_headers = True
            self._job.deadline = time.monotonic() + self._config.limits.total_s
        launched = None
        if request["role"] in ("candidate", "baseline", "timed"):
            # Whoever holds the device would wait for a process that waits for the device.
            launched = self._spares.take(wait=self._lease.held == "")
            if self.device != "cpu" or not self._config.measure:  # nobody's times are taken beside it
                self._spares.replenish()
        if launched is None:
            launched = self._starter.start(request["role"], threads=int(count) if count else None, tool=tool)
        process = launched.process
        process.role = request["role"]
        self._processes[process.number] = process
        return {"id": process.number, "set_up": launched.is_set_up, "fds": [launched.end.detach()]}

    def _kill(self, number: int, *, patience_s: float = 0.0, ended: bool = False) -> Message:
        process = self._processes.get(number)
        if process is None:
            return {}
        # A tool writes its report when what it watches has ended; descriptors close before a death is known.
        process.sandboxed.wait(_LAST_BREATH_S * ended if process.watch is None else patience_s)
        report = process.sandboxed.kill()
        if process.role == "candidate":
            self._job.output_tail = process.sandboxed.output()[-4000:]
        shutil.rmtree(process.libraries, ignore_errors=True)
        return {
            "returncode": report.returncode,
            "signal": report.signal,
            "out_of_memory": report.out_of_memory,
            "reason": report.reason,
            "timed_out": self._job.timed_out and process.role == "candidate",
        }

    def _freeze(self, request: Message) -> Message:
        self._processes[int(request["id"])].sandboxed.freeze()
        return {}

    def _thaw(self, request: Message) -> Message:
        self._processes[int(request["id"])].sandboxed.thaw()
        return {}

    def _peek(self, request: Message) -> Message:
        """What lies in a process's memory."""
        found = self._processes[int(request["id"])].sandboxed.peek(request["places"])
        return {"found": None if found is None else [piece.hex() for piece in found]}

    def _build(self, request: Message) -> Message:
        """What a contestant asked to be built, if it does not have it already."""
        process, asked = self._processes[int(request["id"])], request["request"]
        try:
            wanted = parse_request(asked)
        except InvalidRequest as error:
            return {"ok": False, "path": "", "module_name": "", "log": f"not a valid build: {error}"}
        known = process.supply.recall(asked)
        if known is not None:
            return known
        wanted = wanted.model_copy(update={"real_headers": wanted.real_headers or self._job.real_headers})
        if process.role not in _ASIDE:
            self._job.on_stage(Stage.BUILD)
        outcome, waited_s = self._built(wanted, process)
        self._job.deadline += waited_s
        if process.role not in _ASIDE:
            self._job.on_stage(self._job.stage)
            _record(self._job.builds, _with_resources(outcome.build, outcome.shared_object))
        if process.watch is not None and outcome.shared_object is not None:
            process.watch.libraries.append(outcome.shared_object)
            process.watch.sources.update(outcome.sources)
        answer = process.supply.hand_over(asked, outcome, seen=self._workshop.staging.seen)
        return answer | {"waited_s": waited_s, "build_s": outcome.build.seconds}

    def _built(self, wanted: BuildRequest, process: WorkerHandle) -> tuple[BuildOutcome, float]:
        """A build, and the seconds waited for it or for the device, which is free while it runs."""
        gpu, held, asked = gpu_of(self.device), self._lease.held, time.monotonic()
        if self.device == "cpu":
            self._lease.share()
        else:
            self._lease.release()
        began = time.monotonic()
        try:
            outcome = self._workshop.builder.build(
                wanted,
                architecture=gpu.architecture if gpu else None,
                timeout_s=self._config.limits.build_s,
                instrumented=process.watch is not None and process.watch.tool == ADDRESS,
            )
        finally:
            ended = time.monotonic()
            self._lease.hold(held)
        return outcome, began - asked + outcome.waited_s + time.monotonic() - ended

    def _stage(self, request: Message) -> Message:
        self._job.stage = Stage(request["stage"])
        self._job.on_stage(self._job.stage)
        return {}

    def _hold(self, request: Message) -> Message:
        asked = time.monotonic()
        if request.get("anew"):  # behind those who wait for it
            self._lease.release()
        if request["exclusive"]:
            self._lease.take()
        else:
            self._lease.share()
        waited = time.monotonic() - asked
        self._job.deadline += waited
        return {"waited_s": waited}

    def _release(self, request: Message) -> Message:
        del request
        self._lease.release()
        return {}

    def _report(self, request: Message) -> Message:
        """What a tool says of the process it watched, which is ended."""
        process = self._processes[int(request["id"])]
        if process.watch is None:
            return {"complete": False, "why": "nothing watched this process", "findings": []}
        process.sandboxed.wait(float(request["wait_s"]))
        ended = process.sandboxed.kill()
        report = process.watch.report(process.sandboxed.output(), self._job.source)
        process.watch.close()
        process.watch = None
        return report | {"out_of_memory": ended.out_of_memory, "ended": ended.reason}

    def _sanitizers(self) -> Sanitizers:
        compiler = self._workshop.builder.toolchain.cxx.path if self.device == "cpu" else None
        return find_sanitizers(compiler)

    def _symbols(self, request: Message) -> Message:
        return read_symbols(self._processes[int(request["id"])].libraries).model_dump(mode="json")

    def _remember(self, request: Message) -> Message:
        facts = {key: value for key, value in request.items() if key not in ("op", "about")}
        self._workshop.memory.remember(self._memory_key(request), facts)
        return {}

    def _memory_key(self, request: Message) -> str:
        """Facts are about this problem and policy, or, with `about`, about the device alone."""
        about = request.get("about")
        return f"device:{self.device}:{self._threads}:{about}" if about else self._key


def _record(builds: list[Build], build: Build) -> None:
    """Keep one build more, unless it is one of too many that failed."""
    if build.ok or sum(not known.ok for known in builds) < _MOST_FAILED:
        builds.append(build)


def _with_resources(build: Build, library: Path | None) -> Build:
    """A build with what its kernels take, where it has any."""
    return build.model_copy(update={"resources": read_resources(library)}) if library else build
