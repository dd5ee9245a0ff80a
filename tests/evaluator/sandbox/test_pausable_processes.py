"""Processes are stopped and let go on together, and stay stopped for whoever else stopped them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, cast

import pytest

from kernelwright.evaluator.driver.processes.pausable_processes import PausableProcesses
from kernelwright.evaluator.sandbox import SandboxedProcess

if TYPE_CHECKING:
    from conftest import Inside

SPEAKS_LATE = "import sys; sys.stdin.read(); import time; time.sleep(0.2); print('end')"


def test_a_pause_stops_all_and_its_seconds_are_counted(inside: Inside) -> None:
    running = [inside.start(SPEAKS_LATE) for _ in range(2)]
    told: list[float] = []
    pauses = PausableProcesses(lambda: running, on_paused=told.append)
    pauses.pause()
    pauses.pause()
    assert [process.wait(0.3) for process in running] == [None, None]
    assert pauses.paused_s >= 0.3
    pauses.go_on()
    pauses.go_on()
    assert [report.returncode for process in running if (report := process.wait(60))] == [0, 0]
    assert told == [pytest.approx(pauses.paused_s)]


@pytest.mark.parametrize("first", ["pause", "referee"])
def test_a_process_goes_on_only_when_nobody_stops_it(inside: Inside, first: str) -> None:
    process = inside.start(SPEAKS_LATE)
    pauses = PausableProcesses(lambda: [process])
    stop = [pauses.pause, process.freeze]
    go_on = [pauses.go_on, process.thaw]
    if first == "referee":
        stop.reverse()
        go_on.reverse()
    for each in stop:
        each()
    go_on[0]()
    assert process.wait(0.4) is None
    go_on[1]()
    report = process.wait(60)
    assert report is not None
    assert report.returncode == 0


class _Process:
    """A process that notes what was counted when it went on, and whose freezer may be gone."""

    def __init__(self, told: list[float], *, broken: bool = False) -> None:
        self.told, self.broken = told, broken
        self.counted: list[int] = []

    def freeze(self, by: str) -> None:
        self._use_freezer()

    def thaw(self, by: str) -> None:
        self.counted.append(len(self.told))
        self._use_freezer()

    def _use_freezer(self) -> None:
        if self.broken:
            raise FileNotFoundError("cgroup.freeze")


def test_a_pause_is_counted_before_anybody_runs_again() -> None:
    told: list[float] = []
    process = _Process(told)
    pauses = PausableProcesses(lambda: [cast(SandboxedProcess, process)], on_paused=told.append)
    pauses.pause()
    pauses.go_on()
    assert process.counted == [1]


def test_a_process_that_cannot_be_stopped_or_let_go_on_keeps_no_other_stopped() -> None:
    processes = [_Process([], broken=True), _Process([])]
    pauses = PausableProcesses(lambda: cast("list[SandboxedProcess]", processes))
    pauses.pause()
    pauses.go_on()
    assert [len(each.counted) for each in processes] == [1, 1]


def test_waiting_for_an_end_does_not_count_a_pause(inside: Inside) -> None:
    process = inside.start("import time; time.sleep(0.5)")
    pauses = PausableProcesses(lambda: [process])
    pauses.pause()
    ends = threading.Timer(1.0, pauses.go_on)
    ends.start()
    pauses.wait(process, 0.9)
    assert process.poll() is not None


def test_waiting_ends_where_nothing_was_paused(inside: Inside) -> None:
    process = inside.start("import time; time.sleep(60)")
    began = time.monotonic()
    PausableProcesses(lambda: [process]).wait(process, 0.1)
    assert time.monotonic() - began < 30
    assert process.poll() is None
