"""Calls queued behind a gate: what a process may say when, and that inputs come after the queue."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import cast

import pytest
import torch

from kernelwright.evaluator.devices import Block, Device
from kernelwright.evaluator.ipc.channel import Channel, ChannelError
from kernelwright.evaluator.referee.worker import worker_process
from kernelwright.evaluator.referee.worker.launch_gate import LaunchGate, gate
from kernelwright.evaluator.referee.worker.worker_process import (
    CandidateFailed,
    DriverLink,
    RunResult,
    TimedRun,
    WorkerProcess,
)
from kernelwright.evaluator.schema.evaluation import Status

DONE = {"op": "done", "inner_ms": 1.0}


class _Driver:
    """Starts a process that is a thread here; stopping and waking it is only noted."""

    def __init__(self, behave: Callable[[Channel], None], events: list[str]) -> None:
        self.channel = self
        self._events = events
        ours, theirs = socket.socketpair()
        self._end = ours
        threading.Thread(target=_live, args=(Channel(theirs), behave), daemon=True).start()

    def take_fds(self) -> list[int]:
        return [self._end.detach()]

    def call(self, op: str, **fields: object) -> dict:
        del fields
        if op in ("freeze", "thaw"):
            self._events.append(op)
        return {"id": 1} if op == "start" else {}


def _live(channel: Channel, behave: Callable[[Channel], None]) -> None:
    try:
        behave(channel)
    except ChannelError:
        pass
    finally:
        channel.close()


def _says(*replies: dict, to_collect: dict | None = None, after_s: float = 0.0) -> Callable[[Channel], None]:
    def behave(channel: Channel) -> None:
        channel.receive(30)
        time.sleep(after_s)
        for reply in replies:
            channel.send(reply)
        channel.receive(30)
        channel.send(to_collect or {"op": "done"})

    return behave


def _run(behave: Callable[[Channel], None], events: list[str]) -> tuple[RunResult, LaunchGate]:
    driver = cast(DriverLink, _Driver(behave, events))
    side = WorkerProcess(driver, cast(Device, None), role="candidate")
    shut = LaunchGate(0, torch.zeros(1, dtype=torch.int32))

    def publish() -> None:
        assert int(shut.word) < shut.ticket
        events.append("publish")

    visit = TimedRun(publish, lambda _: events.append("withdraw"), 0, shut)
    try:
        return side.run("time", model="m", first=0, count=4, timeout_s=5.0, visit=visit), shut
    finally:
        side.close()


def test_inputs_are_written_once_calls_are_queued_and_the_gate_opens_after():
    events: list[str] = []
    ran, shut = _run(_says({"op": "queued"}, DONE), events)
    assert events == ["freeze", "publish", "thaw", "withdraw"]
    assert ran.launch_ms is not None
    assert int(shut.word) == shut.ticket == 1


@pytest.mark.parametrize("replies", [(DONE,), ({"op": "queued"}, DONE)])
def test_who_waits_for_the_device_is_let_go_on(monkeypatch, replies):
    """It never says that its calls are queued, or only once the gate is open."""
    monkeypatch.setattr(worker_process, "_QUEUE_S", 0.05)
    events: list[str] = []
    ran, shut = _run(_says(*replies, after_s=0.3), events)
    assert events == ["freeze", "publish", "thaw", "withdraw"]
    assert ran.launch_ms is None
    assert int(shut.word) == shut.ticket


@pytest.mark.parametrize("replies", [(DONE, DONE), ({"op": "queued"}, {"op": "queued"}, DONE)])
def test_an_answer_before_its_inputs_is_none(replies):
    with pytest.raises(CandidateFailed, match="an answer out of order") as raised:
        _run(_says(*replies), [])
    assert raised.value.status is Status.TAMPERED


def test_a_failure_while_queueing_is_a_failure():
    with pytest.raises(CandidateFailed, match="ValueError: no") as raised:
        _run(_says({"op": "failed", "type": "ValueError", "message": "no"}), [])
    assert raised.value.status is Status.RUNTIME_ERROR


def test_who_dies_while_queueing_is_dead():
    with pytest.raises(CandidateFailed, match="ended without answering"):
        _run(lambda channel: channel.close(), [])


def test_inputs_that_cannot_be_written_leave_nobody_waiting():
    """The gate is opened, and what is answered then is no answer to the next question."""
    behave = _says({"op": "queued"}, DONE, to_collect={"op": "done", "next": 1})
    side = WorkerProcess(cast(DriverLink, _Driver(behave, [])), cast(Device, None), role="baseline")
    shut = LaunchGate(0, torch.zeros(1, dtype=torch.int32))

    def publish() -> None:
        raise torch.OutOfMemoryError("no room")

    visit = TimedRun(publish, lambda _: None, 0, shut)
    with pytest.raises(torch.OutOfMemoryError):
        side.run("time", model="m", first=0, count=4, timeout_s=5.0, visit=visit)
    assert int(shut.word) == shut.ticket
    assert side.ask({"op": "collect"}, 5.0) == {"op": "done", "next": 1}
    side.close()


def test_who_fails_while_queueing_waits_for_nobody():
    shut = LaunchGate(0, torch.zeros(1, dtype=torch.int32))
    driver = _Driver(_says({"op": "failed", "type": "OutOfMemoryError", "out_of_memory": True}), [])
    side = WorkerProcess(cast(DriverLink, driver), cast(Device, None), role="baseline")
    visit = TimedRun(lambda: None, lambda: None, 0, shut)
    with pytest.raises(CandidateFailed) as raised:
        side.run("time", model="m", first=0, count=4, timeout_s=5.0, visit=visit)
    assert raised.value.status is Status.OUT_OF_MEMORY
    assert int(shut.word) == shut.ticket
    side.close()


@pytest.mark.gpu
def test_what_is_queued_waits_for_its_gate():
    from kernelwright.evaluator.devices.cuda import CudaDevice

    device = CudaDevice("cuda")
    block = device.allocate(4)
    shut = gate(device, [cast(Block, block)], 0)
    assert shut is not None
    beside, number = torch.cuda.Stream(), torch.zeros(1, device="cuda")
    number.add_(1)
    shut.open()
    torch.cuda.synchronize()
    assert device.waits_for(shut.word, shut.shut())
    number.add_(1)
    done = torch.cuda.Event()
    done.record()
    time.sleep(0.05)
    assert not done.query()
    with torch.cuda.stream(beside):
        shut.open()
    done.synchronize()
    assert int(number) == 2


def test_state_is_noted_before_the_clock_and_put_back_after_it():
    """What that takes the trusted side, a candidate could leave out and spend."""
    asked: list[str] = []

    def behave(channel: Channel) -> None:
        while True:
            message = channel.receive(30)
            asked.append(message["op"])
            events.append(message["op"])
            channel.send(DONE)

    events: list[str] = []
    side = WorkerProcess(cast(DriverLink, _Driver(behave, events)), cast(Device, None), role="candidate")
    side.restores = True
    visit = TimedRun(lambda: events.append("publish"), lambda _: events.append("withdraw"), 0, None)
    side.run("time", model="m", first=0, count=4, timeout_s=5.0, visit=visit)
    side.close()
    assert asked == ["ready", "run", "collect", "restore"]
    assert events.index("ready") < events.index("freeze") < events.index("publish") < events.index("run")
