"""The driver's end of one referee: starts it and the processes it asks for, and serves its requests."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from evaluator.building.builder import Builder
from evaluator.building.request import BuildRequest
from evaluator.candidate import Candidate
from evaluator.config import EvaluationConfig
from evaluator.errors import EvaluatorError, ProblemError
from evaluator.evaluation import Build, Stage
from evaluator.leasing import DeviceLease
from evaluator.machine import gpu_of, threads
from evaluator.problem import Problem
from evaluator.protocol import Channel, ChannelClosed, ChannelError, Message
from evaluator.sandbox import Launcher, Sandboxed
from evaluator.sanitizing import ADDRESS, Sanitizers, Watch, find_sanitizers
from evaluator.staging import Staging
from evaluator.symbols import read_symbols

_OPEN_S = 900.0
_REPORT_S = 15.0
_SERIAL = itertools.count(1)


class Memory(Protocol):
    """What is remembered of a problem between referees: measured ratios of its baselines."""

    def recall(self, key: str) -> Message:
        """What was remembered under a key; empty if nothing."""
        ...

    def remember(self, key: str, facts: Message) -> None:
        """Keep facts under a key."""
        ...


@dataclass(frozen=True, slots=True)
class Workshop:
    """What referees of one evaluator share."""

    launcher: Launcher
    builder: Builder
    staging: Staging
    memory: Memory


@dataclass(slots=True)
class _Process:
    sandboxed: Sandboxed
    libraries: Path
    role: str
    watch: Watch | None


@dataclass(frozen=True, slots=True)
class _Launched:
    """A process that waits for its first message."""

    number: int
    process: _Process
    end: socket.socket


@dataclass(slots=True)
class Job:
    """One candidate's evaluation as the driver sees it."""

    on_stage: Callable[[Stage], None]
    source: str = ""
    deadline: float = float("inf")
    """`time.monotonic()` after which the candidate is ended."""
    builds: list[Build] = field(default_factory=list)
    output_tail: str = ""
    stage: Stage = Stage.LOAD
    timed_out: bool = False


class RefereeHandle:
    """One running referee with one problem open."""

    def __init__(self, workshop: Workshop, problem: Problem, config: EvaluationConfig, device: str) -> None:
        """Start a referee and let it prepare the problem.

        Raises:
            ProblemError: the problem does not run here.
            EvaluatorError: the referee failed.
        """
        self._workshop = workshop
        self._config = config
        self._device = device
        self._threads = threads(config.threads)
        self._processes: dict[int, _Process] = {}
        self._lease = DeviceLease(device)
        self._job = Job(on_stage=lambda stage: None)
        self._channel, self._sandboxed = self._spawn_referee()
        self._spare: _Launched | None = self._launch("candidate", {})
        self.report = self._sandboxed.report
        self._key = f"{problem.sha}:{config.shapes}:{config.dtype}:{config.math}:{device}:{self._threads}"
        self._lease.share()
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
                }
            )
            self._key += f":{self.facts['torch']}:{self.facts['device_name']}"
        except BaseException:
            self.close()
            raise
        finally:
            self._lease.release()

    def judge(self, candidate: Candidate, job: Job) -> Message:
        """Have one candidate judged; returns the referee's answer.

        Raises:
            ProblemError, MachineError, EvaluatorError: nothing can be said about the candidate.
        """
        self._job = job
        job.source = candidate.source
        job.deadline = time.monotonic() + self._config.limits.total_s
        answer = self._converse({"op": "judge", "source": candidate.source})
        self._spare = self._launch("candidate", {})
        return answer

    def sanitize(self, candidate: Candidate, job: Job) -> Message:
        """Have the sanitizers run on one candidate, and nothing else; raises what `judge` raises."""
        self._job = job
        job.source = candidate.source
        return self._converse({"op": "sanitize", "source": candidate.source})

    def close(self) -> None:
        """Kill the referee and everything started for it."""
        self._channel.close()
        self._sandboxed.kill()
        if self._spare is not None:
            self._processes[self._spare.number] = self._spare.process
            self._spare.end.close()
        for number in list(self._processes):
            self._kill(number)
        self._lease.close()

    def _spawn_referee(self) -> tuple[Channel, Sandboxed]:
        ours, theirs = socket.socketpair()
        staging = self._workshop.staging
        with theirs:
            sandboxed = self._workshop.launcher.start(
                staging.command("referee", theirs.fileno()),
                staging.referee_policy(device=self._device, threads=self._threads),
                fds=(theirs.fileno(),),
            )
        return Channel(ours), sandboxed

    def _converse(self, message: Message) -> Message:
        """Send one message and serve requests until its answer arrives."""
        serve = {
            "start": self._start,
            "kill": lambda request: self._kill(int(request["id"]), patience_s=_REPORT_S),
            "freeze": self._freeze,
            "thaw": self._thaw,
            "build": self._build,
            "stage": self._stage,
            "hold": self._hold,
            "release": self._release,
            "recall": lambda request: self._workshop.memory.recall(self._memory_key(request)),
            "remember": self._remember,
            "symbols": self._symbols,
            "sanitizers": lambda request: {"missing": self._sanitizers().missing(self._device)},
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

    def _start(self, request: Message) -> Message:
        """Hand over a process: the one started ahead of time, if it will do."""
        spare, plain = self._spare, not (request.get("tool") or request.get("threads"))
        if spare is not None and plain and spare.process.sandboxed.poll() is None:
            self._spare = None
        else:
            spare = self._launch(request["role"], request)
        spare.process.role = request["role"]
        self._processes[spare.number] = spare.process
        return {"id": spare.number, "fds": [spare.end.detach()]}

    def _launch(self, role: str, request: Message) -> _Launched:
        """Start a process that imports torch and waits; it has seen no foreign code."""
        ours, theirs = socket.socketpair()
        number = next(_SERIAL)
        staging = self._workshop.staging
        libraries = staging.library_folder(str(number))
        command = staging.command("contestant", theirs.fileno())
        policy = staging.contestant_policy(
            self._config,
            device=self._device,
            libraries=libraries,
            threads=int(request.get("threads") or self._threads),
        )
        fds: tuple[int, ...] = (theirs.fileno(),)
        watch = Watch(self._sanitizers(), request["tool"]) if request.get("tool") else None
        if watch is not None:
            command, policy, fds = watch.command(command), watch.policy(policy), (*fds, watch.log)
        try:
            sandboxed = self._workshop.launcher.start(
                command, policy, fds=fds, output_bytes=self._config.limits.output_kib << 10
            )
        finally:
            theirs.close()
        return _Launched(number, _Process(sandboxed, libraries, role, watch), ours)

    def _kill(self, number: int, *, patience_s: float = 0.0) -> Message:
        process = self._processes.get(number)
        if process is None:
            return {}
        if process.watch is not None:
            # A tool writes its report when what it watches has ended.
            process.sandboxed.wait(patience_s)
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

    def _build(self, request: Message) -> Message:
        """Build what a contestant asked for; the device is free meanwhile."""
        process = self._processes[int(request["id"])]
        if process.role != "sanitized":
            self._job.on_stage(Stage.BUILD)
        try:
            wanted = BuildRequest.model_validate(request["request"])
        except ValidationError as error:
            return {"ok": False, "path": "", "module_name": "", "log": f"not a valid build: {error}"}
        gpu = gpu_of(self._device)
        held = self._lease.held
        if self._device == "cpu":
            self._lease.share()
        else:
            self._lease.release()
        try:
            outcome = self._workshop.builder.build(
                wanted,
                architecture=gpu.architecture if gpu else None,
                timeout_s=self._config.limits.build_s,
                instrumented=process.watch is not None and process.watch.tool == ADDRESS,
            )
        finally:
            self._lease.hold(held)
        if process.role != "sanitized":
            self._job.on_stage(self._job.stage)
            self._job.builds.append(outcome.build)
        path = ""
        if outcome.shared_object is not None:
            if process.watch is not None:
                process.watch.libraries.append(outcome.shared_object)
                process.watch.sources.update(outcome.sources)
            copy = (
                process.libraries / f"{len(list(process.libraries.iterdir()))}-{outcome.shared_object.name}"
            )
            shutil.copyfile(outcome.shared_object, copy)
            copy.chmod(0o755)
            path = str(self._workshop.staging.seen(copy))
        build = outcome.build
        return {"ok": build.ok, "path": path, "module_name": outcome.module_name, "log": build.log}

    def _stage(self, request: Message) -> Message:
        self._job.stage = Stage(request["stage"])
        self._job.on_stage(self._job.stage)
        return {}

    def _hold(self, request: Message) -> Message:
        asked = time.monotonic()
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
        compiler = self._workshop.builder.toolchain.cxx.path if self._device == "cpu" else None
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
        return f"device:{self._device}:{self._threads}:{about}" if about else self._key
