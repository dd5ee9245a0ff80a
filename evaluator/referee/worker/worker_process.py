"""A process under the referee's command: a contestant, or the baseline, by the same protocol."""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelwright.evaluator.building.build_request import InvalidRequest, parse_request
from kernelwright.evaluator.devices import Block, Device
from kernelwright.evaluator.ipc.channel import Channel, ChannelClosed, ChannelGarbled, ChannelTimeout, Message
from kernelwright.evaluator.referee.worker.launch_gate import LaunchGate
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.evaluation import Status

START_S = 120.0
_QUEUE_S = 0.2
_QUEUE_S_A_CALL = 2e-4
_PATIENCE = {"baseline": 5.0}
"""Of a reference that were not done with queueing, launching would be in its time, not in the candidate's."""


class CandidateFailed(Exception):
    """The candidate's evaluation ends here."""

    def __init__(self, status: Status, detail: str, **facts: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.facts = facts


class MeasurementDoubt(CandidateFailed):
    """Its claims cannot be true: it cheats, or this one process is odd."""


class DriverLink:
    """The referee's line to the driver, who owns processes, builds and the device lock."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def call(self, op: str, **fields: Any) -> Message:
        """Ask the driver for something and wait for it."""
        self.channel.send({"op": op, **fields})
        return self.channel.receive(with_fds=True)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run message gave."""

    inner_ms: float
    """The other side's claim, for the calls after the lead."""
    outer_ms: float
    """From our message to its answer, on our clock; outputs are not collected yet."""
    collect_ms: float
    """What collecting them took, on our clock."""
    kind: str
    complaint: str
    launch_ms: float | None = None
    """Until all calls were queued, on our clock and before the above began; None where they were not."""

    @property
    def seen_ms(self) -> float:
        """All of our clock: until outputs were collected."""
        return self.outer_ms + self.collect_ms


@dataclass(frozen=True, slots=True)
class TimedRun:
    """What is done around the calls of a run."""

    publish: Callable[[], None]
    """Writes their inputs, while the process is frozen."""
    withdraw: Callable[[object], None]
    """Called when they are over, before their outputs are collected, with where the process says they lie."""
    lead: int
    """The first calls, which are on our clock alone."""
    gate: LaunchGate | None
    """With one, all are queued on the device before their inputs exist and the clock starts, or as many as
    the process queues within a moment."""


class WorkerProcess:
    """One sandboxed process and the memory shared with it."""

    def __init__(self, driver: DriverLink, device: Device, *, role: str, **options: Any) -> None:
        """Start a process; `device` is where shared memory lies, `options` go to the driver."""
        self._driver = driver
        self._device = device
        self.role = role
        reply = driver.call("start", role=role, **options)
        self.id = int(reply["id"])
        self._is_set_up = bool(reply.get("set_up"))
        self._channel = Channel(socket.socket(fileno=driver.channel.take_fds()[0]))
        self.blocks: list[Block] = []
        self.frozen = False
        self.builds_failed = False
        self.builds_timed_out = False
        self.builds_doubtful = False
        """Whether a wrong answer may be the fault of the headers its libraries were built with."""
        self.builds = 0
        self.lost = False
        self.failed = False
        """Whether it ever said that it could not do what it was asked."""
        self.deadline = float("inf")
        """`time.monotonic()` after which this process has no time left for anything."""
        self.compile_s = 0.0
        """Seconds on top for the first call of a model, where that call compiles its kernels."""
        self.restores = False
        """Whether what calls wrote into a model's buffers is undone after a run: the reference writes too."""
        self.renews = False
        """Whether arguments are made anew for each run: for gradients they may belong to no graph yet."""
        self._called: set[tuple[str, str]] = set()

    def setup(self, **fields: Any) -> None:
        """Once it has started, choose device, threads and precision flags; unless that was done."""
        if self._is_set_up:
            return
        self._receive(START_S)
        self.ask({"op": "setup", **fields}, START_S)

    def attach(self, sizes: list[int]) -> list[int]:
        """Allocate blocks for this process alone; returns their indices."""
        blocks = [self._device.allocate(size) for size in sizes]
        descriptors = [block.descriptor() | {"fds": len(block.fds())} for block in blocks]
        fds = [fd for block in blocks for fd in block.fds()]
        first = len(self.blocks)
        self.blocks += blocks
        self.ask({"op": "attach", "blocks": descriptors}, START_S, fds=fds)
        return list(range(first, len(self.blocks)))

    def ask(self, message: Message, timeout_s: float, fds: list[int] | None = None) -> Message:
        """Send one message and wait for its answer; builds asked for meanwhile are passed on.

        Raises:
            Verdict: the process failed, died, hung, or does not speak the protocol.
        """
        self._send(message, fds or [])
        return self._answer(timeout_s)

    def _send(self, message: Message, fds: list[int]) -> None:
        try:
            self._channel.send(message, fds)
        except (ChannelClosed, ChannelTimeout):
            raise self._dead() from None

    def _answer(self, timeout_s: float, *, late: bool = False) -> Message:
        """`late`: it may still say that its calls are queued."""
        reply = self._receive(timeout_s)
        if late and reply.get("op") == "queued":
            reply = self._receive(timeout_s)
        if reply.get("op") == "failed":
            raise self._failed(reply)
        if reply.get("op") != "done":
            raise CandidateFailed(Status.TAMPERED, f"an answer out of order: {str(reply)[:200]}")
        return reply

    def run(
        self,
        layout: str,
        *,
        model: str,
        first: int,
        count: int,
        timeout_s: float,
        visit: TimedRun | None = None,
    ) -> RunResult:
        """Run prepared calls, and stop our clock at the answer; then collect outputs.

        A frozen process finds the message waiting when it wakes, or its queue released: no time passes off
        the clock in which it could look at inputs.

        Raises:
            Verdict: the process failed, died, hung, or does not speak the protocol.
            ProblemError: the reference's outputs do not fit where they fitted when it was opened.
        """
        gate = visit.gate if visit is not None else None
        wanted = {
            "layout": layout,
            "model": model,
            "first": first,
            "count": count,
            "restore": self.restores,
        }
        ready = visit is not None and (self.restores or self.renews)
        if ready:
            # Off the clock: what it took the trusted side a candidate could leave out and spend.
            self.thaw()
            self.ask({"op": "ready"} | wanted, timeout_s)
            self.freeze()
        message = wanted | {
            "op": "run",
            "lead": visit.lead if visit is not None else 0,
            "ready": ready,
            "gate": None if gate is None else {"block": gate.block, "value": gate.shut()},
        }
        patience_s = 0.0 if (model, layout) in self._called else self.compile_s
        launch_ms = None
        if gate is not None:
            self._send(message, [])
            patience = _PATIENCE.get(self.role, 1.0)
            with gate.opened_on_failure():
                launch_ms = self._queue_ms((_QUEUE_S + count * _QUEUE_S_A_CALL) * patience)
        if visit is not None:
            self.freeze()
            self._publish(visit, timeout_s)
        started = time.perf_counter_ns()
        if gate is None:
            self._send(message, [])
        else:
            # Before the process wakes: in between, work on a stream of its own would be in no claim.
            gate.open()
        self.thaw()
        reply = self._answer(timeout_s + patience_s, late=gate is not None and launch_ms is None)
        outer_ms = (time.perf_counter_ns() - started) / 1e6
        self._called.add((model, layout))
        claim = _claim(reply.get("inner_ms"))
        if visit is not None:
            visit.withdraw(reply.get("where"))
        started = time.perf_counter_ns()
        self._send({"op": "collect", "layout": layout, "first": first}, [])
        self.thaw()
        reply = self._answer(timeout_s)
        collect_ms = (time.perf_counter_ns() - started) / 1e6
        if self.restores:
            self.ask({"op": "restore"}, timeout_s)
        kind, complaint = str(reply.get("kind", "")), str(reply.get("complaint", ""))[:500]
        if complaint and self.role == "baseline":
            raise ProblemError(f"the reference answers differently shaped from draw to draw: {complaint}")
        return RunResult(claim, outer_ms, collect_ms, kind, complaint, launch_ms)

    def _publish(self, visit: TimedRun, timeout_s: float) -> None:
        """Write inputs; where that fails, the process must not wait for them, nor answer later."""
        try:
            visit.publish()
        except BaseException:
            if visit.gate is not None:
                visit.gate.open()
                self.thaw()
                with contextlib.suppress(CandidateFailed):
                    self._answer(timeout_s, late=True)
            raise

    def _queue_ms(self, patience_s: float) -> float | None:
        """What the process takes to queue its calls; None if it waits for one of them, or for too long."""
        self.thaw()
        started = time.perf_counter_ns()
        if not self._channel.speaks(patience_s):
            return None
        reply = self._receive(START_S)
        if reply.get("op") == "failed":
            raise self._failed(reply)
        if reply.get("op") != "queued":
            raise CandidateFailed(Status.TAMPERED, f"an answer out of order: {str(reply)[:200]}")
        return (time.perf_counter_ns() - started) / 1e6

    def renew(self, model: str) -> None:
        """A model of this name was constructed: its next call is its first."""
        self._called = {(name, layout) for name, layout in self._called if name != model}

    def freeze(self) -> None:
        """Stop every task of the process."""
        if not self.frozen:
            self._driver.call("freeze", id=self.id)
            self.frozen = True

    def thaw(self) -> None:
        """Let it run again."""
        if self.frozen:
            self._driver.call("thaw", id=self.id)
            self.frozen = False

    def peek(self, places: list[tuple[int, int]]) -> list[bytes] | None:
        """What lies at addresses of the process, so many bytes each; None where the system lets nobody look.

        Where nothing lies is no byte.
        """
        found = self._driver.call("peek", id=self.id, places=places).get("found")
        return None if found is None else [bytes.fromhex(text) for text in found]

    def close(self) -> Message:
        """Kill the process with everything it started and free what was shared with it."""
        self._channel.close()
        report = self._driver.call("kill", id=self.id)
        while self.blocks:
            self.blocks.pop().close()
        return report

    def _receive(self, timeout_s: float) -> Message:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                reply = self._channel.receive(max(0.0, min(deadline, self.deadline) - time.monotonic()))
            except ChannelTimeout:
                self.lost = True
                if deadline <= self.deadline:
                    raise CandidateFailed(Status.TIMED_OUT, f"no answer within {timeout_s:.0f} s") from None
                raise CandidateFailed(Status.TIMED_OUT, "the evaluation's time is used up") from None
            except ChannelGarbled as error:
                self.lost = True
                raise CandidateFailed(
                    Status.TAMPERED, f"the channel carried something else than answers: {error}"
                ) from None
            except ChannelClosed:
                raise self._dead() from None
            if reply.get("op") != "build":
                return reply
            built = self._build(reply.get("request"))
            waited_s = float(built.get("waited_s", 0.0))
            self.deadline += waited_s
            deadline += waited_s + float(built.get("build_s", 0.0))
            self._note(built)
            self._send({key: built.get(key) for key in ("ok", "path", "module_name", "log")}, [])

    def _build(self, request: object) -> Message:
        """The driver's answer to what a process wants built; it sees none that is not well formed."""
        try:
            parse_request(request)
        except InvalidRequest as error:
            return {"ok": False, "path": "", "module_name": "", "log": f"not a valid build: {error}"}
        return self._driver.call("build", id=self.id, request=request)

    def _note(self, built: Message) -> None:
        """Keep what an answer to a build says of this process's builds."""
        self.builds += 1
        self.builds_failed |= not built.get("ok") and not built.get("refused")
        self.builds_timed_out |= bool(built.get("timed_out"))
        self.builds_doubtful |= bool(built.get("doubtful"))

    def _dead(self) -> CandidateFailed:
        """Why the process is gone, from the operating system and not from the process."""
        self.lost = True
        report = self._driver.call("kill", id=self.id, ended=True)
        if report.get("timed_out"):
            return CandidateFailed(Status.TIMED_OUT, "the evaluation's time is used up")
        if report.get("out_of_memory"):
            return CandidateFailed(
                Status.OUT_OF_MEMORY, f"the process ran out of memory: {report.get('reason', '')}"
            )
        if report.get("signal"):
            return CandidateFailed(Status.RUNTIME_ERROR, f"the process died of {report.get('reason', '')}")
        return CandidateFailed(
            Status.RUNTIME_ERROR,
            f"the process ended without answering (exit status {report.get('returncode')})",
        )

    def _failed(self, reply: Message) -> CandidateFailed:
        self.failed = True
        kind, text = str(reply.get("type", ""))[:200], str(reply.get("message", ""))[:4000]
        detail = f"{kind}: {text}"
        facts = {"traceback": str(reply.get("traceback", ""))[:8000]}
        if reply.get("out_of_memory"):
            return CandidateFailed(Status.OUT_OF_MEMORY, detail, **facts)
        if "illegal memory access" in text or "misaligned address" in text:
            return CandidateFailed(Status.MEMORY_ERROR, detail, **facts)
        if self.builds_timed_out and "Error building extension" in text:
            return CandidateFailed(Status.TIMED_OUT, detail, **facts)
        if (self.builds_failed and "Error building extension" in text) or reply.get("compiling"):
            return CandidateFailed(Status.COMPILE_ERROR, detail, **facts)
        return CandidateFailed(Status.RUNTIME_ERROR, detail, **facts)


def _claim(value: object) -> float:
    """A claimed time, if it is one.

    Raises:
        Verdict: `TAMPERED`: not a finite, non-negative number.
    """
    try:
        claimed = float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        claimed = math.inf
    if not (math.isfinite(claimed) and claimed >= 0):
        raise CandidateFailed(Status.TAMPERED, f"the process claims a time that is none: {str(value)[:40]}")
    return claimed
