"""Vetting a problem, the driver's side: a referee of its own, bounded in time and memory."""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from evaluator.config import EvaluationConfig
from evaluator.errors import EvaluatorError
from evaluator.flaws import Remark, Severity, Vetting
from evaluator.leasing import DeviceLease
from evaluator.machine import cpu_name, threads
from evaluator.problem import Problem
from evaluator.protocol import Channel, ChannelClosed, ChannelTimeout, Message
from evaluator.refereeing import Memory, Workshop
from evaluator.sandbox import ExitReport, Sandboxed, SandboxPolicy

_LONGEST_S: Final = 300.0
_MEMORY_SHARE: Final = 0.8


def vet(
    workshop: Workshop, problem: Problem, config: EvaluationConfig, device: str, *, version: str = ""
) -> Vetting:
    """Look for flaws in a problem; what is found marks every later score of it on this machine.

    Raises:
        ConfigError: the problem has no shapes of that name.
        EvaluatorError: the evaluator or the machine failed.
    """
    overrides = problem.overrides(config.shapes)
    began = time.monotonic()
    inspection = _Inspection(workshop, config, device)
    lease = DeviceLease(device)
    lease.share()
    try:
        answer = inspection.ask(
            {
                "op": "vet",
                "problem": problem.id,
                "source": problem.source,
                "overrides": overrides,
                "config": config.model_dump(mode="json"),
                "device": "cpu" if device == "cpu" else "cuda",
                "threads": threads(config.threads),
            }
        )
    finally:
        inspection.close()
        lease.close()
    vetting = Vetting(
        problem=problem.id,
        problem_sha=problem.sha,
        shapes=config.shapes,
        dtype=config.dtype,
        math=config.math,
        device=device,
        device_name=str(answer.get("device_name") or cpu_name()),
        seconds=round(time.monotonic() - began, 3),
        evaluator_version=version,
        vetted_at=datetime.now(UTC).isoformat(timespec="seconds"),
        **{name: answer[name] for name in _MEASURED if answer.get(name) is not None},
    )
    workshop.memory.remember(_key(problem, config, device), {"vetting": vetting.model_dump(mode="json")})
    return vetting


def flaws_of(
    memory: Memory, problem: Problem, config: EvaluationConfig, device: str, seen: Iterable[str]
) -> tuple[str, ...]:
    """Names of a problem's flaws: from its last vetting under this policy, and `seen` by a referee since."""
    stored = memory.recall(_key(problem, config, device)).get("vetting")
    vetted: tuple[str, ...] = ()
    if stored is not None:
        try:
            vetted = tuple(remark.name for remark in Vetting.model_validate(stored).flaws)
        except ValueError:
            vetted = ()  # written by another version; vetting again replaces it
    return tuple(dict.fromkeys((*vetted, *seen)))


_MEASURED: Final = ("remarks", "guessable", "measured_ms", "estimated_ms", "memory_bytes", "flops")


class _Inspection:
    """One referee that vets one problem."""

    def __init__(self, workshop: Workshop, config: EvaluationConfig, device: str) -> None:
        self._memory = workshop.memory
        self._about = f"device:{device}:{threads(config.threads)}"
        self._deadline = time.monotonic() + min(_LONGEST_S, config.limits.total_s)
        self._begun = False
        ours, theirs = socket.socketpair()
        with theirs:
            policy = workshop.staging.referee_policy(device=device, threads=threads(config.threads))
            self._sandboxed: Sandboxed = workshop.launcher.start(
                workshop.staging.command("referee", theirs.fileno()), _bounded(policy), fds=(theirs.fileno(),)
            )
        self._channel = Channel(ours)

    def ask(self, message: Message) -> Message:
        """Send one message, serve the referee's memory, and have its answer or what its end says."""
        try:
            self._channel.send(message)
            while True:
                request = self._channel.receive(max(0.0, self._deadline - time.monotonic()))
                match request["op"]:
                    case "vetted":
                        return request
                    case "crashed" | "problem_error":
                        raise EvaluatorError(f"vetting failed: {request.get('message')}")
                    case _:
                        self._channel.send(self._serve(request))
        except ChannelTimeout:
            return _one_flaw("too_slow", "did not end in time")
        except ChannelClosed:
            return self._obituary(self._sandboxed.kill())

    def close(self) -> None:
        """End the referee."""
        self._channel.close()
        self._sandboxed.kill()

    def _serve(self, request: Message) -> Message:
        key = f"{self._about}:{request.get('about')}"
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

    def _obituary(self, report: ExitReport) -> Message:
        """What the death of the process says of the problem."""
        tail = self._sandboxed.output()[-1000:].strip()
        if not self._begun:
            raise EvaluatorError(f"the referee died ({report.reason}){': ' + tail if tail else ''}")
        if report.out_of_memory:
            return _one_flaw("too_big", f"ran out of memory: {report.reason}")
        return _one_flaw("crashes", f"{report.reason}{': ' + tail if tail else ''}")


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


def _one_flaw(name: str, detail: str) -> Message:
    return {"remarks": [Remark(name=name, severity=Severity.FLAW, detail=detail)]}


def _key(problem: Problem, config: EvaluationConfig, device: str) -> str:
    return f"vetting:{problem.sha}:{config.shapes}:{config.dtype}:{config.math}:{device}"
