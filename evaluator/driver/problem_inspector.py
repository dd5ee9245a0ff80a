"""Vetting a problem, the driver's side: a referee of its own, bounded in time and memory."""

from __future__ import annotations

import dataclasses
import signal
import socket
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from kernelwright.evaluator.driver.measurement_cache import MeasurementStore
from kernelwright.evaluator.driver.referee_client import EvaluatorResources
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.host.hardware import cpu_name, threads
from kernelwright.evaluator.ipc.channel import Channel, ChannelClosed, ChannelTimeout, Message
from kernelwright.evaluator.sandbox import ExitReport, SandboxedProcess, SandboxPolicy
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import EvaluatorError
from kernelwright.evaluator.schema.problem import Problem
from kernelwright.evaluator.schema.problem_report import ProblemFlaw, ProblemReport, Severity
from kernelwright.evaluator.schema.problem_signature import ProblemSignature

_LONGEST_S: Final = 300.0
_DESCRIBING_S: Final = 30.0
_DYING_S: Final = 5.0
_MEMORY_SHARE: Final = 0.8
_TAIL: Final = 500
_DESCRIBED: Final = ("inputs", "outputs", "parameters", "bytes_moved", "flops")
_MEASURED: Final = ("remarks", "guessable", "measured_ms", "estimated_ms", "memory_bytes", "flops")


class ProblemInspector:
    """A referee that vets one problem after another, each in a child of its own."""

    def __init__(
        self, workshop: EvaluatorResources, device: str, *, wanted_threads: int | None = None
    ) -> None:
        """Start a process on a device; `wanted_threads` None means the cores this process may use."""
        self._memory = workshop.memory
        self._device = device
        self._threads = threads(wanted_threads)
        self._begun = False
        self._alive = True
        self._lease = DeviceLock(device)
        ours, theirs = socket.socketpair()
        with theirs:
            policy = workshop.staging.referee_policy(device=device, threads=self._threads)
            self._sandboxed: SandboxedProcess = workshop.launcher.start(
                workshop.staging.command("referee", theirs.fileno()), _bounded(policy), fds=(theirs.fileno(),)
            )
        self._channel = Channel(ours)

    @property
    def usable(self) -> bool:
        """Whether it can vet another problem; one that outlived its time or memory cannot."""
        return self._alive

    def vet(self, problem: Problem, config: EvaluationConfig, *, version: str = "") -> ProblemReport:
        """Look for flaws in a problem; what is found marks every later score of it on this machine.

        Raises:
            ConfigError: the problem has no shapes of that name.
            EvaluatorError: the evaluator or the machine failed.
        """
        message = {
            "op": "vet",
            "problem": problem.id,
            "source": problem.source,
            "overrides": problem.overrides(config.shapes),
            "config": config.model_dump(mode="json"),
            "device": "cpu" if self._device == "cpu" else "cuda",
            "threads": self._threads,
        }
        began = time.monotonic()
        self._lease.share()
        try:
            answer = self._ask(message, began + min(_LONGEST_S, config.limits.total_s))
        finally:
            self._lease.release()
        vetting = ProblemReport(
            problem=problem.id,
            problem_sha=problem.sha,
            shapes=config.shapes,
            dtype=config.dtype,
            math=config.math,
            device=self._device,
            device_name=str(answer.get("device_name") or cpu_name()),
            seconds=round(time.monotonic() - began, 3),
            evaluator_version=version,
            vetted_at=datetime.now(UTC).isoformat(timespec="seconds"),
            **{name: answer[name] for name in _MEASURED if answer.get(name) is not None},
        )
        key = _key(problem, config, self._device)
        self._memory.remember(key, {"vetting": vetting.model_dump(mode="json")})
        return vetting

    def describe(self, problem: Problem, config: EvaluationConfig) -> ProblemSignature:
        """What a problem is, without running it; what it hides is left out.

        Raises:
            ConfigError: the problem has no shapes of that name.
            EvaluatorError: the evaluator or the machine failed.
        """
        message = {
            "op": "describe",
            "problem": problem.id,
            "source": problem.source,
            "overrides": problem.overrides(config.shapes),
            "dtype": config.dtype.value,
            "threads": 1,
        }
        answer = self._ask(message, time.monotonic() + min(_DESCRIBING_S, config.limits.total_s))
        return ProblemSignature(
            problem=problem.id,
            problem_sha=problem.sha,
            shapes=config.shapes,
            dtype=config.dtype,
            **{name: answer[name] for name in _DESCRIBED if answer.get(name) is not None},
        )

    def close(self) -> None:
        """End the process."""
        self._alive = False
        self._channel.close()
        self._sandboxed.kill()
        self._lease.close()

    def _ask(self, message: Message, deadline: float) -> Message:
        """Have one problem vetted; how the child or the process ended is an answer too."""
        answer: Message = {}
        self._begun = False
        try:
            self._channel.send(message)
            while True:
                request = self._channel.receive(max(0.0, deadline - time.monotonic()))
                match request["op"]:
                    case "vetted" | "described":
                        answer = request
                    case "ended":
                        return answer or self._of_child(int(request["code"]))
                    case "crashed" | "problem_error":
                        raise EvaluatorError(f"looking at the problem failed: {request.get('message')}")
                    case _:
                        self._channel.send(self._serve(request))
        except ChannelTimeout:
            self._alive = False
            return _one_flaw("too_slow", "not vetted in time")
        except ChannelClosed:
            self._alive = False
            return self._of_process(self._sandboxed.wait(_DYING_S) or self._sandboxed.kill())
        except BaseException:
            self._alive = False
            raise

    def _serve(self, request: Message) -> Message:
        key = f"device:{self._device}:{self._threads}:{request.get('about')}"
        match request["op"]:
            case "recall":
                return self._memory.recall(key)
            case "remember":
                facts = {name: value for name, value in request.items() if name not in ("op", "about")}
                self._memory.remember(key, facts)
            case "begin":
                self._begun = True
            case other:
                raise EvaluatorError(f"a referee that vets asked for {other!r}")
        return {}

    def _of_child(self, code: int) -> Message:
        """What the end of the child says of the problem."""
        if not self._begun:
            raise EvaluatorError(
                f"looking at the problem ended before it began ({_ending(code)}): {self._tail()}"
            )
        if code == -signal.SIGKILL:
            return _one_flaw("too_big", "killed while it ran, most likely for its memory")
        return _one_flaw("crashes", f"{_ending(code)} {self._tail()}".strip())

    def _of_process(self, report: ExitReport) -> Message:
        """What the end of everything says of the problem."""
        if not self._begun:
            raise EvaluatorError(f"the referee died ({report.reason}) {self._tail()}".strip())
        if report.out_of_memory:
            return _one_flaw("too_big", f"ran out of memory: {report.reason}")
        return _one_flaw("crashes", f"{report.reason} {self._tail()}".strip())

    def _tail(self) -> str:
        return self._sandboxed.output()[-_TAIL:].strip()


def flaws_of(
    memory: MeasurementStore, problem: Problem, config: EvaluationConfig, device: str, seen: Iterable[str]
) -> tuple[str, ...]:
    """Names of a problem's flaws: from its last vetting under this policy, and `seen` by a referee since."""
    stored = memory.recall(_key(problem, config, device)).get("vetting")
    vetted: tuple[str, ...] = ()
    if stored is not None:
        try:
            vetted = tuple(remark.name for remark in ProblemReport.model_validate(stored).flaws)
        except ValueError:
            vetted = ()  # written by another version; vetting again replaces it
    return tuple(dict.fromkeys((*vetted, *seen)))


def _bounded(policy: SandboxPolicy) -> SandboxPolicy:
    """No more memory than this machine can spare."""
    spare = _available_bytes()
    return dataclasses.replace(policy, memory_bytes=min(policy.memory_bytes, int(_MEMORY_SHARE * spare)))


def _available_bytes() -> int:
    with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123  (not a file, no Path needed)
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 4 << 30


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"


def _one_flaw(name: str, detail: str) -> Message:
    return {"remarks": [ProblemFlaw(name=name, severity=Severity.FLAW, detail=detail)]}


def _key(problem: Problem, config: EvaluationConfig, device: str) -> str:
    return f"vetting:{problem.sha}:{config.shapes}:{config.dtype}:{config.math}:{device}"
