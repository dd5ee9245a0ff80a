"""What a process's builds mean for its time and its verdict."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest

from kernelwright.evaluator.ipc.channel import Channel, ChannelError
from kernelwright.evaluator.referee.worker.worker_process import CandidateFailed, WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status


class Driver:
    """Answers every build alike, and starts a process that is a thread here."""

    def __init__(self, built: dict, behave: Callable[[Channel], None]) -> None:
        self.channel = self
        self._built = built
        ours, theirs = socket.socketpair()
        self._end = ours
        threading.Thread(target=_live, args=(Channel(theirs), behave), daemon=True).start()

    def take_fds(self) -> list[int]:
        return [self._end.detach()]

    def call(self, op: str, **fields: object) -> dict:
        if op == "build":
            time.sleep(0.02)
        return {"start": {"id": 1}, "build": self._built}.get(op, {})


def _live(channel: Channel, behave: Callable[[Channel], None]) -> None:
    try:
        channel.receive(30)
        behave(channel)
    except ChannelError:
        pass
    finally:
        channel.close()


def build_often(channel: Channel) -> None:
    for _ in range(100):
        channel.send({"op": "build", "request": {"name": "ext"}})
        channel.receive(30)
    channel.send({"op": "done"})


def build_nonsense(channel: Channel) -> None:
    channel.send({"op": "build", "request": {"name": [[[[["ext"]]]]]}})
    reply = channel.receive(30)
    channel.send({"op": "failed", "type": "RuntimeError", "message": reply["log"]})


def build_and_fail(channel: Channel) -> None:
    channel.send({"op": "build", "request": {"name": "ext"}})
    reply = channel.receive(30)
    words = f"Error building extension 'ext': {reply['log']}"
    channel.send({"op": "failed", "type": "RuntimeError", "message": words})


def verdict(built: dict, behave: Callable[[Channel], None], timeout_s: float = 30) -> CandidateFailed:
    side = WorkerProcess(Driver(built, behave), None, role="candidate")
    try:
        with pytest.raises(CandidateFailed) as raised:
            side.ask({"op": "load"}, timeout_s)
    finally:
        side.close()
    return raised.value


def test_builds_that_take_no_time_buy_none():
    built = {"ok": True, "path": "/ext.so", "module_name": "ext", "log": "", "waited_s": 0.0, "build_s": 0.0}
    assert verdict(built, build_often, timeout_s=0.5).status is Status.TIMED_OUT


@pytest.mark.parametrize(("refused", "status"), [(False, Status.COMPILE_ERROR), (True, Status.RUNTIME_ERROR)])
def test_what_was_not_tried_is_no_compile_error(refused, status):
    built = {"ok": False, "path": "", "module_name": "", "log": "no", "refused": refused}
    assert verdict(built, build_and_fail).status is status


def test_the_driver_never_sees_what_is_no_request():
    found = verdict({"ok": True, "log": "built after all"}, build_nonsense)
    assert "not a valid build: it is nested deeper" in str(found)
