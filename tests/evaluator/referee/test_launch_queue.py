"""Calls queued behind a gate: what a process may say when, and that inputs come after the queue."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from kernelwright.evaluator.devices import Block, Device
from kernelwright.evaluator.devices.cpu import CpuDevice
from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.ipc.contestant_messages import Collect, Collected, Failed, Owned, Queued, Ran, Run
from kernelwright.evaluator.ipc.driver_requests import Freeze, Role, Start, Thaw
from kernelwright.evaluator.ipc.messages import Done, Message
from kernelwright.evaluator.referee.worker import policy
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.launch_gate import LaunchGate, gate
from kernelwright.evaluator.referee.worker.timed_run import RunResult, TimedRun
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status
from tests.evaluator.referee.thread_driver import ThreadDriver

RUN = Run(layout="time", model="m", first=0, count=4)
RAN = Ran(inner_ms=1.0, places="")
COLLECTED = Collected(kind="", complaint="")


class _Driver(ThreadDriver):
    """Stopping and waking its process is only noted."""

    def __init__(self, behave: Callable[[Channel], None], events: list[str]) -> None:
        self._events = events
        super().__init__(behave)

    def ask(self, request: Any) -> Any:
        if isinstance(request, Freeze | Thaw):
            self._events.append(request.op)
        return super().ask(request)


def _worker(
    behave: Callable[[Channel], None], events: list[str], role: Role, device: str = "cuda"
) -> WorkerProcess:
    shared = cast(Device, SimpleNamespace(torch_device=torch.device(device)))
    return WorkerProcess(_Driver(behave, events), shared, Start(role=role))


def _says(
    *answers: Message, to_collect: Message = COLLECTED, after_s: float = 0.0
) -> Callable[[Channel], None]:
    def behave(channel: Channel) -> None:
        channel.receive(30)
        time.sleep(after_s)
        for answer in answers:
            channel.send(answer.to_json())
        channel.receive(30)
        channel.send(to_collect.to_json())

    return behave


def _run(behave: Callable[[Channel], None], events: list[str]) -> tuple[RunResult, LaunchGate]:
    worker = _worker(behave, events, "candidate")
    shut = LaunchGate(0, torch.zeros(1, dtype=torch.int32))

    def publish() -> None:
        assert int(shut.word) < shut.ticket
        events.append("publish")

    timed = TimedRun(lambda: None, publish, None, lambda: events.append("withdraw"), 0, shut)
    try:
        return worker.runner.run(RUN, 5.0, timed), shut
    finally:
        worker.close()


def _failed(kind: str, text: str, *, out_of_memory: bool = False) -> Failed:
    return Failed(type=kind, message=text, traceback="", out_of_memory=out_of_memory, compiling=False)


def test_inputs_are_written_once_calls_are_queued_and_the_gate_opens_after():
    events: list[str] = []
    ran, shut = _run(_says(Queued(), RAN), events)
    assert events == ["freeze", "publish", "thaw", "withdraw"]
    assert ran.launch_ms is not None
    assert int(shut.word) == shut.ticket == 1


@pytest.mark.parametrize("replies", [(RAN,), (Queued(), RAN)])
def test_who_waits_for_the_device_is_let_go_on(monkeypatch, replies):
    """It never says that its calls are queued, or only once the gate is open."""
    monkeypatch.setattr(policy, "QUEUE_S", 0.05)
    events: list[str] = []
    ran, shut = _run(_says(*replies, after_s=0.3), events)
    assert events == ["freeze", "publish", "thaw", "withdraw"]
    assert ran.launch_ms is None
    assert int(shut.word) == shut.ticket


def _run_awake(behave: Callable[[Channel], None], events: list[str], wake_s: float = 0.0) -> LaunchGate:
    worker = _worker(behave, events, "candidate")
    shut = LaunchGate(0, torch.zeros(1, dtype=torch.int32))

    def wake() -> None:
        assert int(shut.word) < shut.ticket
        events.append("wake")
        time.sleep(wake_s)

    publish = functools.partial(events.append, "publish")
    withdraw = functools.partial(events.append, "withdraw")
    timed = TimedRun(lambda: None, publish, None, withdraw, 0, shut, wake=wake)
    try:
        worker.runner.run(RUN, 5.0, timed)
    finally:
        worker.close()
        assert int(shut.word) == shut.ticket
    return shut


def test_who_is_to_be_awake_wakes_before_the_gate_opens():
    def behave(channel: Channel) -> None:
        channel.receive(30)
        channel.send(Queued().to_json())
        while "wake" not in events:
            time.sleep(0.01)
        time.sleep(0.05)
        channel.send(RAN.to_json())
        channel.receive(30)
        channel.send(COLLECTED.to_json())

    events: list[str] = []
    _run_awake(behave, events)
    assert events == ["freeze", "publish", "thaw", "wake", "withdraw"]


def test_an_answer_before_the_gate_opens_is_none():
    with pytest.raises(CandidateFailed, match="answered before its call could begin") as raised:
        _run_awake(_says(Queued(), RAN), [], wake_s=0.2)
    assert raised.value.status is Status.TAMPERED


@pytest.mark.parametrize("replies", [(RAN, RAN), (Queued(), Queued(), RAN)])
def test_an_answer_before_its_inputs_is_none(replies):
    with pytest.raises(CandidateFailed, match="an answer out of order") as raised:
        _run(_says(*replies), [])
    assert raised.value.status is Status.TAMPERED


def test_a_failure_while_queueing_is_a_failure():
    with pytest.raises(CandidateFailed, match="ValueError: no") as raised:
        _run(_says(_failed("ValueError", "no")), [])
    assert raised.value.status is Status.RUNTIME_ERROR


def test_who_dies_while_queueing_is_dead():
    with pytest.raises(CandidateFailed, match="ended without answering"):
        _run(lambda channel: channel.close(), [])


def test_inputs_that_cannot_be_written_leave_nobody_waiting():
    """The gate is opened, and what is answered then is no answer to the next question."""
    behave = _says(Queued(), RAN, to_collect=Collected(kind="shape", complaint="next"))
    side = _worker(behave, [], "baseline")
    shut = LaunchGate(0, torch.zeros(1, dtype=torch.int32))

    def publish() -> None:
        raise torch.OutOfMemoryError("no room")

    timed = TimedRun(lambda: None, publish, None, lambda: None, 0, shut)
    with pytest.raises(torch.OutOfMemoryError):
        side.runner.run(RUN, 5.0, timed)
    assert int(shut.word) == shut.ticket
    assert side.ask(Collect(layout="time", first=0, kept=None), 5.0).complaint == "next"
    side.close()


def test_who_fails_while_queueing_waits_for_nobody():
    shut = LaunchGate(0, torch.zeros(1, dtype=torch.int32))
    side = _worker(_says(_failed("OutOfMemoryError", "", out_of_memory=True)), [], "baseline")
    timed = TimedRun(lambda: None, lambda: None, None, lambda: None, 0, shut)
    with pytest.raises(CandidateFailed) as raised:
        side.runner.run(RUN, 5.0, timed)
    assert raised.value.status is Status.OUT_OF_MEMORY
    assert int(shut.word) == shut.ticket
    side.close()


@pytest.mark.gpu
@pytest.mark.parametrize("on_host", [True, False])
def test_what_is_queued_waits_for_its_gate(on_host: bool):
    """On every stream that waits for the current one, whoever holds the word."""
    from kernelwright.evaluator.devices.cuda import CudaDevice

    device = CudaDevice("cuda")
    block = device.allocate_word() if on_host else device.allocate(4)
    assert block.data.is_cuda is not on_host
    shut = gate([cast(Block, block)], 0)
    assert shut is not None
    other, beside = torch.cuda.Stream(), torch.cuda.Stream()
    numbers = torch.zeros(2, device="cuda")
    numbers.add_(1)
    shut.open()
    torch.cuda.synchronize()
    assert device.waits_for(shut.word, shut.shut())
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        numbers[1].add_(1)
    numbers[0].add_(1)
    done = [torch.cuda.current_stream().record_event(), other.record_event()]
    time.sleep(0.05)
    assert not any(event.query() for event in done)
    with torch.cuda.stream(beside):
        shut.open()
    torch.cuda.synchronize()
    assert numbers.tolist() == [2, 2]
    block.close()
    block.close()


@pytest.mark.gpu
def test_two_processes_see_one_word():
    """Both register it; here both are one process with two mappings."""
    from kernelwright.evaluator.devices.cuda import CudaDevice

    device = CudaDevice("cuda")
    ours = device.allocate_word()
    theirs = device.attach(ours.descriptor(), [os.dup(fd) for fd in ours.fds()])
    ours.data[:4].view(torch.int32).fill_(7)
    assert device.waits_for(theirs.data[:4].view(torch.int32), 7)
    torch.cuda.synchronize()
    theirs.close()
    ours.close()


def _attaches(*answers: Message) -> Callable[[Channel], None]:
    def behave(channel: Channel) -> None:
        for answer in answers:
            channel.receive(30)
            channel.take_fds()
            channel.send(answer.to_json())

    return behave


def test_who_cannot_register_host_memory_gets_a_word_of_the_device():
    """Its blocks keep their numbers."""
    refused = _failed("RuntimeError", "cudaHostRegister failed")
    worker = _worker(_attaches(Done(), refused, Done()), [], "candidate")
    worker.device = CpuDevice()
    assert worker.attach([64]) == [0]
    assert worker.attach_word() == 1
    assert len(worker.blocks) == 2
    assert not worker.failed
    worker.close()


def test_who_attaches_nothing_has_failed():
    refused = _failed("RuntimeError", "no")
    worker = _worker(_attaches(refused, refused), [], "candidate")
    worker.device = CpuDevice()
    with pytest.raises(CandidateFailed, match="RuntimeError: no"):
        worker.attach_word()
    worker.close()


@pytest.mark.parametrize("refused", ["cudaHostRegister", "cudaHostGetDevicePointer"])
def test_host_memory_that_cuda_does_not_take_is_given_back(refused: str):
    from kernelwright.evaluator.devices.cpu import sealed_file
    from kernelwright.evaluator.devices.pinned_block import PinnedBlock

    asked = []

    def call(name: str, *arguments: object) -> None:
        asked.append(name)
        if name == refused:
            raise RuntimeError(f"{name} failed")

    fd = sealed_file(4096)
    with pytest.raises(RuntimeError, match=refused):
        PinnedBlock(fd, 4096, call)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert ("cudaHostUnregister" in asked) is (refused == "cudaHostGetDevicePointer")


def test_on_a_cpu_memory_is_looked_at_before_anything_else_is_asked():
    """Nothing is frozen yet: that would wait for system calls."""
    events: list[str] = []

    def behave(channel: Channel) -> None:
        while True:
            message = channel.receive(30)
            events.append(message["op"])
            channel.send(answers[message["op"]].to_json())

    answers = {"run": RAN, "own": Owned(copied_ms=1.5, where=[[[8]]]), "collect": COLLECTED}
    side = _worker(behave, events, "candidate", "cpu")

    def look(places: str) -> None:
        events.append(f"look {places!r}")
        time.sleep(0.1)

    timed = TimedRun(lambda: None, lambda: None, look, lambda: events.append("withdraw"), 0, None)
    ran = side.runner.run(RUN, 5.0, timed)
    side.close()
    events = [event for event in events if event not in ("freeze", "thaw")]
    assert events == ["run", "look ''", "own", "withdraw", "collect"]
    assert ran.outer_ms >= 100.0
    assert ran.owned_ms < 100.0
    assert (ran.copied_ms, ran.where) == (1.5, [[[8]]])


def test_state_is_noted_before_the_clock_and_put_back_after_it():
    """What that takes the trusted side, a candidate could leave out and spend."""
    asked: list[str] = []

    def behave(channel: Channel) -> None:
        while True:
            message = channel.receive(30)
            asked.append(message["op"])
            events.append(message["op"])
            channel.send(answers.get(message["op"], Done()).to_json())

    answers: dict[str, Message] = {"run": RAN, "collect": COLLECTED}
    events: list[str] = []
    side = _worker(behave, events, "candidate")
    side.runner.begin_model("m", restores=True)
    begin, publish = (functools.partial(events.append, name) for name in ("begin", "publish"))
    timed = TimedRun(begin, publish, None, lambda: events.append("withdraw"), 0, None)
    ran = side.runner.run(RUN, 5.0, timed)
    side.close()
    assert ran.setup_ms > 0.0
    assert asked == ["make_ready", "run", "collect", "restore"]
    assert events.index("make_ready") < events.index("freeze") < events.index("publish") < events.index("run")
    assert events.index("make_ready") < events.index("begin") < events.index("publish")
