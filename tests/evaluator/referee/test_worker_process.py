"""What a process's builds mean for its time and its verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from kernelwright.evaluator.devices import open_device
from kernelwright.evaluator.ipc.channel import Channel, JsonObject
from kernelwright.evaluator.ipc.contestant_messages import Built, Failed, Load, RequestBuild
from kernelwright.evaluator.ipc.driver_requests import (
    BuildFinished,
    BuildLibrary,
    FindPauses,
    Paused,
    Start,
)
from kernelwright.evaluator.ipc.messages import Done, decode
from kernelwright.evaluator.referee.worker.candidate_failure import BuildTally, CandidateFailed
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status
from tests.evaluator.referee.thread_driver import ThreadDriver


class Driver(ThreadDriver):
    """Answers every build alike."""

    def __init__(self, built: BuildFinished, behave: Callable[[Channel], None]) -> None:
        self._built = built
        self.paused_in_all, self.pauses = 0.0, 0
        """Seconds of pauses so far, and the number of those to come: one whenever somebody asks."""

        def obey(channel: Channel) -> None:
            channel.receive(30)
            behave(channel)

        super().__init__(obey)

    def ask(self, request: Any) -> Any:
        if isinstance(request, BuildLibrary):
            time.sleep(0.02)
            return self._built
        if isinstance(request, FindPauses):
            self.paused_in_all += 1e-7 if self.pauses else 0.0
            self.pauses = max(0, self.pauses - 1)
            return Paused(seconds=self.paused_in_all)
        return super().ask(request)


def build(channel: Channel, request: object) -> Built:
    channel.send(RequestBuild(request=request).to_json())
    return decode(channel.receive(30), Built)


def fail(channel: Channel, message: str) -> None:
    failed = Failed(type="RuntimeError", message=message, traceback="", out_of_memory=False, compiling=False)
    channel.send(failed.to_json())


def build_often(channel: Channel) -> None:
    for _ in range(100):
        build(channel, {"name": "ext"})
    channel.send(Done().to_json())


def build_nonsense(channel: Channel) -> None:
    fail(channel, build(channel, {"name": [[[[["ext"]]]]]}).log)


def build_and_fail(channel: Channel) -> None:
    fail(channel, f"Error building extension 'ext': {build(channel, {'name': 'ext'}).log}")


def ending(built: BuildFinished, behave: Callable[[Channel], None], timeout_s: float = 30) -> CandidateFailed:
    worker = WorkerProcess(Driver(built, behave), open_device("cpu"), Start(role="candidate"))
    try:
        with pytest.raises(CandidateFailed) as raised:
            worker.ask(Load(source="", class_name="ModelNew", overrides={}), timeout_s)
    finally:
        worker.close()
    return raised.value


BUILT = BuildFinished(ok=True, log="", path="/ext.so", module_name="ext")


def test_builds_that_take_no_time_buy_none():
    assert ending(BUILT, build_often, timeout_s=0.5).status is Status.TIMED_OUT


def silent(pauses: Callable[[Driver], None], timeout_s: float) -> tuple[CandidateFailed, float]:
    """How a worker ends that never answers, and the seconds it was waited for."""
    over = threading.Event()
    driver = Driver(BUILT, lambda channel: cast(None, over.wait(30)))
    worker = WorkerProcess(driver, open_device("cpu"), Start(role="candidate"))
    try:
        pauses(driver)
        worker.limit(60)
        began = time.monotonic()
        with pytest.raises(CandidateFailed) as raised:
            worker.ask(Load(source="", class_name="ModelNew", overrides={}), timeout_s)
        return raised.value, time.monotonic() - began
    finally:
        over.set()
        worker.close()


def test_pauses_before_its_time_began_buy_none():
    found, waited_s = silent(lambda driver: setattr(driver, "paused_in_all", 600.0), timeout_s=1.0)
    assert found.status is Status.TIMED_OUT
    assert waited_s < 1.8


def test_any_number_of_pauses_is_allowed_for():
    drivers: list[Driver] = []

    def pause_often(driver: Driver) -> None:
        driver.pauses = 2000
        drivers.append(driver)

    found, _ = silent(pause_often, timeout_s=0.01)
    assert found.status is Status.TIMED_OUT
    assert drivers[0].pauses == 0


@pytest.mark.parametrize(("refused", "status"), [(False, Status.COMPILE_ERROR), (True, Status.RUNTIME_ERROR)])
def test_what_was_not_tried_is_no_compile_error(refused, status):
    assert ending(BuildFinished(ok=False, log="no", refused=refused), build_and_fail).status is status


def test_the_driver_never_sees_what_is_no_request():
    found = ending(replace(BUILT, log="built after all"), build_nonsense)
    assert "not a valid build: it is nested deeper" in str(found)


HOSTILE: tuple[JsonObject, ...] = (
    {},
    {"op": None},
    {"op": ["done"]},
    {"op": "done", "more": 1},
    {"op": "ran", "inner_ms": 1.0, "places": ""},
    {"op": "failed", "type": "E"},
    {"op": "request_build"},
    {"op": "failed", "type": "E" * 300, "message": "", "traceback": "", "out_of_memory": 0, "compiling": 0},
)


@pytest.mark.parametrize("line", HOSTILE)
def test_what_is_no_answer_is_tampering(line):
    found = ending(BUILT, lambda channel: channel.send(line))
    assert found.status is Status.TAMPERED
    assert len(found.detail) < 1000


def test_builds_are_counted_and_failures_remembered():
    tally = BuildTally()
    for built in (BUILT, BuildFinished(ok=False, log="no", refused=True)):
        tally.note(built)
    assert (tally.count, tally.failed, tally.timed_out, tally.suspect) == (2, False, False, False)
    tally.note(BuildFinished(ok=False, log="no", timed_out=True, suspect=True))
    assert (tally.count, tally.failed, tally.timed_out, tally.suspect) == (3, True, True, True)
