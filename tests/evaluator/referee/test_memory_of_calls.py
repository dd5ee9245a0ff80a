"""Memory for timed calls: had while the device is held alone, waited for only while others go on."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from kernelwright.evaluator.ipc.contestant_messages import Attach, Detach
from kernelwright.evaluator.referee.timing import timing_session
from kernelwright.evaluator.referee.timing.baseline.measured_baselines import Baselines
from kernelwright.evaluator.referee.timing.speedup import BaselineFacts
from kernelwright.evaluator.referee.timing.timing_session import TimingSession
from kernelwright.evaluator.referee.worker import policy, quiet_device
from kernelwright.evaluator.referee.worker.launch_gate import LaunchGate
from kernelwright.evaluator.referee.worker.setup import ProblemContext
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess


class _Worker:
    """A process that notes what becomes of it."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def freeze(self) -> None:
        self.events.append("freeze")

    def thaw(self) -> None:
        self.events.append("thaw")

    def extend(self, seconds: float) -> None:
        self.events.append("extend")


class _Session(TimingSession):
    """A session whose device is full a number of times."""

    def __init__(self, full: int, *, others_evicted: bool = False) -> None:
        self.full, self.others_evicted = full, others_evicted
        self.context = cast(ProblemContext, None)

    def _lay_out(self, worker: WorkerProcess) -> Any:
        if self.full:
            self.full -= 1
            raise torch.OutOfMemoryError("full")
        return SimpleNamespace(
            gate=LaunchGate(3, torch.zeros(1)),
            free=lambda: cast(_Worker, worker).events.append("free"),
            queue_behind=lambda gate, capacity: gate.set_capacity(capacity),
        )


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    found: list[object] = []
    monkeypatch.setattr(timing_session, "yield_device", lambda context, worker: found.append(worker))
    return found


def test_others_go_on_until_there_is_room_and_the_worker_then_waits_for_its_turn(waits: list[object]) -> None:
    worker = _Worker()
    _Session(2).lay_out(cast(WorkerProcess, worker))
    assert waits == [worker, worker]
    assert worker.events == ["freeze"]


def test_without_room_for_the_gate_the_rest_is_freed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []

    def attach_word() -> int:
        events.append("attach")
        raise torch.OutOfMemoryError("full")

    buffers = SimpleNamespace(free=lambda: events.append("free"))
    monkeypatch.setattr(timing_session, "lay_out", lambda *request: buffers)
    session: Any = object.__new__(TimingSession)
    expected = SimpleNamespace(output=None)
    session._most, session._base = 8, SimpleNamespace(arguments=None, expected=expected)
    with pytest.raises(torch.OutOfMemoryError):
        session._lay_out(SimpleNamespace(attach_word=attach_word))
    assert events == ["attach", "free"]


@pytest.mark.parametrize(("others_evicted", "patience_s"), [(True, 30.0), (False, -1.0)])
def test_where_waiting_is_no_use_the_device_is_full(
    waits: list[object], monkeypatch: pytest.MonkeyPatch, others_evicted: bool, patience_s: float
) -> None:
    monkeypatch.setattr(timing_session, "MEMORY_WAIT_S", patience_s)
    with pytest.raises(torch.OutOfMemoryError):
        _Session(1, others_evicted=others_evicted).lay_out(cast(WorkerProcess, _Worker()))
    assert waits == []


def test_a_worker_is_stopped_while_its_referee_has_given_the_device_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, events = _Worker(), []
    monkeypatch.setattr(policy, "QUIET_PAUSE_S", 0.0)
    driver = SimpleNamespace(
        release=lambda: events.append(("release", *worker.events)),
        hold=lambda exclusive, after_tools: events.append(("hold", exclusive, *worker.events)),
    )
    device = SimpleNamespace(torch_device=torch.device("cpu"))
    context = cast(ProblemContext, SimpleNamespace(driver=driver, device=device))
    quiet_device.yield_device(context, cast(WorkerProcess, worker))
    assert events == [("release", "freeze"), ("hold", True, "freeze")]
    assert worker.events == ["freeze", "thaw", "extend"]


def test_baselines_take_memory_again_with_what_was_known_of_their_queue() -> None:
    worker, session = _Worker(), _Session(0)
    first = session.lay_out(cast(WorkerProcess, worker))
    first.gate.note_queued(64)
    first.gate.set_capacity(128)
    facts = BaselineFacts(1.0, 0.1, None, None)
    found = Baselines(cast(WorkerProcess, worker), True, facts, 64, first.gate, 128, first)
    found.lay_out(session)
    assert found.eager is first
    found.free()
    found.free()
    assert worker.events == ["freeze", "thaw", "free", "freeze"]
    with pytest.raises(RuntimeError, match="given back"):
        found.restore_queue()
    found.lay_out(session)
    found.restore_queue()
    assert worker.events[-2:] == ["thaw", "freeze"]
    gate = found.eager.gate
    assert gate is found.gate
    assert gate is not first.gate
    assert (gate.largest_queued, gate.capacity) == (64, 128)


@pytest.mark.parametrize(
    ("gaps", "holds"),
    [([0.0], 1), ([3.0, 0.5, 0.0], 1), ([3.0, 0.0], 2), ([1.0] * 20, 10)],
    ids=["at once", "soon", "once others went on", "never"],
)
def test_a_device_is_quiet_once_nobody_else_has_had_it_for_a_while(
    monkeypatch: pytest.MonkeyPatch, gaps: list[float], holds: int
) -> None:
    events: list[str] = []
    watch = SimpleNamespace(start=lambda: None, stop=lambda: gaps.pop(0))
    device = SimpleNamespace(torch_device=torch.device("cuda"), synchronize=lambda: None, watch=lambda: watch)
    driver = SimpleNamespace(
        hold=lambda exclusive, after_tools: events.append("hold after tools" if after_tools else "hold"),
        release=lambda: events.append("release"),
        step=lambda name: contextlib.nullcontext(),
    )
    monkeypatch.setattr(policy, "QUIET_PAUSE_S", 0.0)
    monkeypatch.setattr(policy, "QUIET_S", 0.001)
    if holds > 1:
        monkeypatch.setattr(policy, "FIRST_QUIET_WAIT_S", -1.0)
        monkeypatch.setattr(policy, "QUIET_WAIT_S", -1.0)
    quiet_device.hold_quiet(cast(ProblemContext, SimpleNamespace(device=device, driver=driver)))
    assert events == ["hold", *["release", "hold after tools"] * (holds - 1)]


class _Block:
    def __init__(self, size: int) -> None:
        self.closed = 0
        self.size = size

    def descriptor(self) -> dict[str, Any]:
        return {"size": self.size}

    def fds(self) -> tuple[int, ...]:
        return ()

    def close(self) -> None:
        self.closed += 1


def test_what_was_allocated_is_freed_where_the_rest_has_no_room_and_where_it_is_detached() -> None:
    made: list[_Block] = []

    def allocate(size: int, wait_s: float) -> _Block:
        if size > 100:
            raise torch.OutOfMemoryError("full")
        made.append(_Block(size))
        return made[-1]

    asked: list[object] = []
    worker: Any = object.__new__(WorkerProcess)
    worker.device, worker.blocks = SimpleNamespace(allocate=allocate), []
    worker.ask = lambda request, *rest: asked.append(request)
    with pytest.raises(torch.OutOfMemoryError):
        worker.attach([10, 1000], wait_s=0.0)
    assert [block.closed for block in made] == [1]
    assert worker.blocks == []
    worker.attach([10, 20])
    worker.detach("time", [1])
    assert [block.closed for block in worker.blocks] == [0, 1]
    assert [type(one) for one in asked] == [Attach, Detach]
