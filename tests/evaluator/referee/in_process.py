"""A referee whose contestants are threads of the test: every stage is real, no process is started.

For tests of the wiring, on candidates that mean no harm: nothing is sandboxed, freezing stops nobody, and
what a candidate imports or patches is shared with the test.
"""

from __future__ import annotations

import ctypes
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from kernelwright.evaluator.contestant.exceptions import CompilerPatterns
from kernelwright.evaluator.contestant.executor import Contestant
from kernelwright.evaluator.devices.cpu import CpuDevice
from kernelwright.evaluator.ipc import driver_requests as wire
from kernelwright.evaluator.ipc.channel import Channel, JsonObject
from kernelwright.evaluator.ipc.contestant_messages import Setup
from kernelwright.evaluator.ipc.messages import Done
from kernelwright.evaluator.ipc.referee_messages import Open
from kernelwright.evaluator.referee.evaluate_candidate import EvaluationRequest, evaluate_candidate
from kernelwright.evaluator.referee.open_problem import OpenProblem
from kernelwright.evaluator.referee.outcome import Outcome
from kernelwright.evaluator.referee.server import RefereeServer
from kernelwright.evaluator.referee.worker.driver_link import DriverLink
from kernelwright.evaluator.schema.config import EvaluationConfig
from tests.evaluator.referee.thread_driver import play

QUICK = EvaluationConfig(device="cpu", baselines=("eager",), target_ms=1, max_turns=4, threads=1)
UNTIMED = QUICK.model_copy(update={"measure": False})
_PEAKS = {"bytes_per_ms": 1e7, "flops_per_ms": 1e8, "cache_bytes": 1 << 25, "times": 9}
"""Remembered of the device: measuring them takes seconds."""
_SPREADS = {"process_spread": 0.01}
"""Remembered of every problem, whose reference else runs in two processes more, which takes seconds."""


class ThreadContestant(Contestant):
    """A contestant that leaves torch's settings and its extension builder alone."""

    def _setup(self, request: Setup) -> Done:
        return Done()


MakeContestant = Callable[[Channel, CompilerPatterns], Contestant]


class InProcessDriver(DriverLink):
    """Answers a referee's requests; starts threads, and remembers what was asked."""

    def __init__(self, patterns: CompilerPatterns) -> None:
        self._patterns = patterns
        self.candidate: MakeContestant = ThreadContestant
        """Plays the candidate; every other role is honest."""
        self.facts: dict[str, JsonObject] = {}
        self.asked: list[Any] = []
        self._channels: list[Channel] = []

    def hang_up(self) -> None:
        """End every contestant that is still there."""
        for channel in self._channels:
            channel.close()

    def start(self, request: wire.Start) -> tuple[wire.Started, Channel]:
        self.asked.append(request)
        ours, theirs = map(Channel, socket.socketpair())
        make = ThreadContestant if request.role == "baseline" else self.candidate
        contestant = make(theirs, self._patterns)
        threading.Thread(target=play, args=(theirs, lambda _: contestant.serve()), daemon=True).start()
        self._channels.append(ours)
        return wire.Started(id=len(self.asked), set_up=False), ours

    def open_memory(self, process: int) -> int | None:
        return os.open("/proc/self/mem", os.O_RDONLY)

    def open_freezer(self, process: int) -> None:
        """Nothing stops a thread."""

    # Any: the answer to any request.
    def ask(self, request: Any) -> Any:
        self.asked.append(request)
        match request:
            case wire.Hold() | wire.HoldForTools():
                return wire.DeviceHeld(waited_s=0.0)
            case wire.Kill():
                return wire.Ended(returncode=0, signal=None, out_of_memory=False, reason="", timed_out=False)
            case wire.Peek():
                found = [ctypes.string_at(*place).hex() for place in request.places]
                return wire.Peeked(found=found, shared=False)
            case wire.Recall():
                known = _PEAKS if request.about.startswith("rates:") else {} if request.about else _SPREADS
                return wire.Facts(facts=self.facts.get(request.about, known))
            case wire.Remember():
                self.facts[request.about] = request.facts
            case wire.FindPauses():
                return wire.Paused(seconds=0.0)
            case wire.FindSanitizers():
                return wire.Missing(missing="nothing is built here")
            case wire.FindSymbols():
                return wire.Facts(facts={})
        return Done()

    def count(self, kind: type) -> int:
        """How often something was asked for."""
        return sum(isinstance(request, kind) for request in self.asked)


class InProcess:
    """One open problem and its driver."""

    def __init__(self, source: str, config: EvaluationConfig, patterns: CompilerPatterns) -> None:
        self.driver = InProcessDriver(patterns)
        asked = Open(
            problem="p",
            source=source,
            overrides={},
            config=config.model_dump(mode="json"),
            device="cpu",
            threads=1,
            others_evicted=False,
        )
        server = RefereeServer(cast(Channel, None))
        self.flaws = server._prepare(asked, config, self.driver, CpuDevice())
        assert server._problem is not None
        self.problem: OpenProblem = server._problem

    def evaluate(self, source: str, make: MakeContestant = ThreadContestant) -> Outcome:
        """The outcome of a candidate, played by a contestant."""
        self.driver.candidate = make
        return evaluate_candidate(
            self.problem, EvaluationRequest(source, compile_s=0.0, others_evicted=False)
        )


Opener = Callable[..., InProcess]


@pytest.fixture
def opened(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    """Opens problems: source and configuration in, `InProcess` out."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    backends = tmp_path / "backends.json"
    backends.write_text('[{"compiler_frames": "", "launch_frames": "", "error_preamble": ""}]')
    patterns = CompilerPatterns.read(backends)
    made: list[InProcess] = []

    def open_problem(source: str, config: EvaluationConfig = QUICK, **changes: Any) -> InProcess:
        made.append(InProcess(source, config.model_copy(update=changes), patterns))
        return made[-1]

    yield open_problem
    for each in made:
        each.driver.hang_up()
