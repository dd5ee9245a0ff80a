"""The protocol of a run: its steps before, on and after the referee's clock."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from kernelwright.evaluator.ipc import contestant_messages as wire
from kernelwright.evaluator.ipc.channel import JsonObject, encoded
from kernelwright.evaluator.ipc.messages import A_co, Request
from kernelwright.evaluator.referee.worker import policy
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.launch_gate import LaunchGate
from kernelwright.evaluator.referee.worker.worker_channel import WorkerChannel
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.evaluation import Status


@dataclass(frozen=True, slots=True)
class RunResult:
    """Times of one run, and what was wrong with its outputs."""

    inner_ms: float
    """The worker's claim, for the calls after the lead."""
    outer_ms: float
    """From our message to its answer, on our clock, and on a CPU until we have looked at its memory; outputs
    are not collected yet."""
    collect_ms: float
    """Collecting them, on our clock."""
    kind: str
    complaint: str
    where: object
    """The places of the outputs, as the worker says."""
    copied_ms: float = 0.0
    """Its claim for copying outputs that did not own their memory, where it is asked for that."""
    owned_ms: float = 0.0
    """Finding and copying those, on our clock."""
    setup_ms: float = 0.0
    """Getting ready before and restoring state afterwards, on our clock."""
    launch_ms: float | None = None
    """Until all calls were queued, on our clock and before the above began; None where they were not."""


@dataclass(frozen=True, slots=True)
class TimedRun:
    """The referee's work around the calls of a timed run."""

    begin: Callable[[], None]
    """Called when the process has nothing left to do before its inputs are there but to queue calls."""
    publish: Callable[[], None]
    """Writes their inputs, while the process is frozen."""
    look: Callable[[str], None] | None
    """Called at the answer, before our clock stops, with where the process says that its outputs lie."""
    withdraw: Callable[[], None]
    """Called when they are over, before their outputs are collected."""
    lead: int
    """The first calls, which are on our clock alone."""
    gate: LaunchGate | None
    """With one, all are queued on the device before their inputs exist and the clock starts, or as many as
    the process queues within a moment."""
    on_host: bool = False
    """True if the process itself waits for the gate, not what it queued."""
    wake: Callable[[], None] | None = None
    """Called while the process wakes before the gate opens; None to let it wake on the clock."""
    spoils: bool = True
    """True if outputs of queued calls are overwritten before their inputs exist."""


class CallRunner:
    """Runs prepared calls in one worker."""

    def __init__(self, channel: WorkerChannel, *, role: str, compile_s: float, owns_late: bool) -> None:
        """With `owns_late`, outputs that do not own their memory are copied after the answer."""
        self._channel = channel
        self._role = role
        self._compile_s = compile_s
        self._owns_late = owns_late
        self._restores = False
        self._renews = False
        self._called: set[tuple[str, str]] = set()
        """Models with the layouts they were called on."""

    def begin_model(self, model: str, *, restores: bool) -> None:
        """A model of this name was constructed: its next call is its first.

        With `restores`, what calls wrote into buffers is undone after each run: the reference writes too.
        """
        self._restores = restores
        self._called = {(name, layout) for name, layout in self._called if name != model}

    def renew_arguments(self) -> None:
        """Make arguments anew for each run from now on: for gradients they may belong to no graph yet."""
        self._renews = True

    def run(self, run: wire.Run, timeout_s: float, timed: TimedRun) -> RunResult:
        """Run prepared calls, and stop our clock at the answer; then collect outputs.

        `run` names the calls; lead, restoring and gate are filled in here.

        Raises:
            ProblemError: the reference's outputs do not fit where they fitted when it was opened.
        """
        gate, ready = timed.gate, self._restores or self._renews
        request = replace(
            run,
            lead=timed.lead,
            restore=self._restores,
            ready=ready,
            gate_block=None if gate is None else gate.block,
            gate_value=0 if gate is None else gate.shut(),
            waits=gate is not None and timed.on_host,
            spoil=timed.spoils,
        )
        # Beside the calls' clock, or a candidate could skip it and bank the time.
        setup_ms = self._make_ready(request, timeout_s) if ready else 0.0
        line = encoded(request.to_json())
        timed.begin()
        launch_ms = None if gate is None else self._queue(line, gate, run.count)
        self._channel.freeze()
        self._publish(timed, timeout_s)
        if gate is not None and timed.wake is not None:
            self._wake(timed.wake, gate, queued=launch_ms is not None)
        most_s = timeout_s + self._first_call_s(request)
        ran, outer_ms = self._timed_calls(line, gate, most_s, late=launch_ms is None, look=timed.look)
        result = self._after_calls(request, ran, outer_ms, timeout_s, timed.withdraw)
        return replace(result, setup_ms=result.setup_ms + setup_ms, launch_ms=launch_ms)

    def begin(self, run: wire.Run, timeout_s: float) -> Callable[[], RunResult]:
        """Begin untimed calls; return what waits for their end, collects outputs, and raises what `run` does.

        Nothing else may be asked of the process before.
        """
        request = replace(run, restore=self._restores)
        started = time.perf_counter_ns()
        answer = self._channel.post(request, timeout_s + self._first_call_s(request))
        self._channel.thaw()

        def finish() -> RunResult:
            ran = answer()
            outer_ms = (time.perf_counter_ns() - started) / 1e6
            return self._after_calls(request, ran, outer_ms, timeout_s, None)

        return finish

    def _first_call_s(self, run: wire.Run) -> float:
        """Seconds on top that a model's first call may take."""
        return 0.0 if (run.model, run.layout) in self._called else self._compile_s

    def _after_calls(
        self,
        run: wire.Run,
        ran: wire.Ran,
        outer_ms: float,
        timeout_s: float,
        withdraw: Callable[[], None] | None,
    ) -> RunResult:
        """Do what follows the calls of a run: outputs are copied and collected, state is restored."""
        self._called.add((run.model, run.layout))
        owned, owned_ms = self._own(run.layout, timeout_s)
        if withdraw is not None:
            withdraw()
        collect = wire.Collect(layout=run.layout, first=run.first)
        collected, collect_ms = self._collect(collect, timeout_s)
        restore_ms = self._ask(wire.Restore(), timeout_s)[1] if self._restores else 0.0
        if collected.complaint and self._role == "baseline":
            complaint = collected.complaint
            raise ProblemError(f"the reference answers differently shaped from draw to draw: {complaint}")
        return RunResult(
            ran.inner_ms,
            outer_ms,
            collect_ms,
            collected.kind,
            collected.complaint,
            owned.where,
            owned.copied_ms,
            owned_ms,
            restore_ms,
        )

    def _make_ready(self, run: wire.Run, timeout_s: float) -> float:
        self._channel.thaw()
        request = wire.MakeReady(
            layout=run.layout, model=run.model, first=run.first, count=run.count, restore=run.restore
        )
        _, took_ms = self._ask(request, timeout_s)
        self._channel.freeze()
        return took_ms

    def _ask(self, request: Request[A_co], timeout_s: float) -> tuple[A_co, float]:
        """Ask for a step beside the calls; return the answer and its milliseconds on our clock."""
        started = time.perf_counter_ns()
        answer = self._channel.ask(request, timeout_s)
        return answer, (time.perf_counter_ns() - started) / 1e6

    def _queue(self, line: bytes, gate: LaunchGate, count: int) -> float | None:
        """Let the process queue its calls; return the time it took, None if it took too long or waits."""
        self._channel.send(line)
        patience = policy.QUEUE_PATIENCE.get(self._role, 1.0)
        with gate.opened_on_failure():
            self._channel.thaw()
            started = time.perf_counter_ns()
            if not self._channel.speaks((policy.QUEUE_S + count * policy.QUEUE_S_A_CALL) * patience):
                return None
            self._channel.read(self._channel.receive(policy.START_S), wire.Queued)
            return (time.perf_counter_ns() - started) / 1e6

    def _wake(self, wake: Callable[[], None], gate: LaunchGate, *, queued: bool) -> None:
        """Let the process wake; raises CandidateFailed if it answers before its calls can begin."""
        with gate.opened_on_failure():
            self._channel.thaw()
            wake()
            if queued and self._channel.speaks(0.0):
                raise CandidateFailed(Status.TAMPERED, "the process answered before its call could begin")

    def _publish(self, timed: TimedRun, timeout_s: float) -> None:
        """Write inputs; where that fails, the process must not wait for them, nor answer later."""
        try:
            timed.publish()
        except BaseException:
            if timed.gate is not None:
                timed.gate.open()
                self._channel.thaw()
                with contextlib.suppress(CandidateFailed):
                    self._channel.read(self._end_of_calls(timeout_s, late=True), wire.Ran)
            raise

    def _timed_calls(
        self,
        line: bytes,
        gate: LaunchGate | None,
        timeout_s: float,
        *,
        late: bool,
        look: Callable[[str], None] | None,
    ) -> tuple[wire.Ran, float]:
        """Start the clock, let the calls begin, and stop it at the answer, which is decoded afterwards.

        A frozen process finds the message waiting when it wakes, or its queue released: no time passes off
        the clock in which it could look at inputs. With `look`, it stops once the process's memory was looked
        at: what a system call does from then on until the process is frozen comes too late.
        """
        started = time.perf_counter_ns()
        if gate is None:
            self._channel.send(line)
        else:
            # Before the process wakes: in between, work on a stream of its own would be in no claim.
            gate.open()
        self._channel.thaw()
        received = self._end_of_calls(timeout_s, late=gate is not None and late)
        if look is None:
            outer_ms = (time.perf_counter_ns() - started) / 1e6
            return self._channel.read(received, wire.Ran), outer_ms
        ran = self._channel.read(received, wire.Ran)
        look(ran.places)
        return ran, (time.perf_counter_ns() - started) / 1e6

    def _own(self, layout: str, timeout_s: float) -> tuple[wire.Owned, float]:
        """Let the process copy outputs that do not own their memory; return also the time on our clock."""
        if not self._owns_late:
            return wire.Owned(copied_ms=0.0, where=[]), 0.0
        return self._ask(wire.Own(layout=layout), timeout_s)

    def _end_of_calls(self, timeout_s: float, *, late: bool) -> JsonObject:
        """The answer to a run; with `late`, the process may still say before it that its calls are queued."""
        received = self._channel.receive(timeout_s)
        if late and received.get("op") == wire.Queued.op:
            received = self._channel.receive(timeout_s)
        return received

    def _collect(self, request: wire.Collect, timeout_s: float) -> tuple[wire.Collected, float]:
        line = encoded(request.to_json())
        started = time.perf_counter_ns()
        self._channel.send(line)
        self._channel.thaw()
        received = self._channel.receive(timeout_s)
        collect_ms = (time.perf_counter_ns() - started) / 1e6
        return self._channel.read(received, wire.Collected), collect_ms
