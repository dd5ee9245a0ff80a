"""Work that shares a device is paused while somebody has it alone, and goes on afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.evaluator import MachineError
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.host.file_lock import LockFiles


class Work:
    """Work that notes whether it may run."""

    def __init__(self) -> None:
        self.running = True
        self.pauses = 0

    def pause(self) -> None:
        self.running = False
        self.pauses += 1

    def go_on(self) -> None:
        self.running = True


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("kernelwright.evaluator.host.shared_claim.SHARED_SLICE_S", 0.02)


@pytest.fixture
def timing() -> Iterator[DeviceLock]:
    lock = DeviceLock("cuda:0", wait_s=20)
    yield lock
    lock.close()


def sharing(count: int) -> tuple[list[Work], list[DeviceLock]]:
    works = [Work() for _ in range(count)]
    locks = [DeviceLock("cuda:0", wait_s=20, pausable=work) for work in works]
    for lock in locks:
        lock.share()
    return works, locks


def until(condition: object) -> None:
    deadline = time.monotonic() + 10
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_timing_does_not_wait_for_the_end_of_shared_work(timing: DeviceLock) -> None:
    works, locks = sharing(3)
    timing.hold_alone()
    assert [work.running for work in works] == [False] * 3
    timing.release()
    until(lambda: all(work.running for work in works))
    timing.hold_alone()
    assert [work.pauses for work in works] == [2] * 3
    timing.release()
    for lock in locks:
        lock.close()
    assert timing.alone_s > 0


def test_whoever_stops_sharing_is_not_kept_stopped(timing: DeviceLock) -> None:
    (stays, leaves), (first, second) = sharing(2)
    timing.hold_alone()
    second.release()
    assert leaves.running
    assert not stays.running
    timing.release()
    until(lambda: stays.running)
    first.close()
    second.close()


def test_a_newcomer_waits_until_timing_is_over(timing: DeviceLock) -> None:
    _, (first,) = sharing(1)
    timing.hold_alone()
    late = DeviceLock("cuda:0", wait_s=20, pausable=Work())
    joined = threading.Event()
    newcomer = threading.Thread(target=lambda: (late.share(), joined.set()))
    newcomer.start()
    assert not joined.wait(0.1)
    timing.release()
    assert joined.wait(10)
    newcomer.join()
    first.close()
    late.close()


def test_everybody_may_leave_while_paused_and_come_back(timing: DeviceLock) -> None:
    (work,), (lock,) = sharing(1)
    timing.hold_alone()
    lock.release()
    timing.release()
    lock.share()
    timing.hold_alone()
    assert not work.running
    timing.release()
    lock.close()


def test_one_that_shares_may_want_it_alone_itself(timing: DeviceLock) -> None:
    works, locks = sharing(2)
    locks[0].hold_alone()
    assert (works[0].running, works[1].running) == (True, False)
    locks[0].share()
    until(lambda: works[1].running)
    for lock in locks:
        lock.close()


def test_many_that_want_it_alone_have_it_one_by_one_and_shared_work_goes_on() -> None:
    works, locks = sharing(2)
    alone: list[int] = []
    most: list[int] = []

    def time_something() -> None:
        lock = DeviceLock("cuda:0", wait_s=20)
        for _ in range(5):
            lock.hold_alone()
            alone.append(1)
            most.append(len(alone))
            assert not any(work.running for work in works)
            time.sleep(0.005)
            alone.pop()
            lock.release()
        lock.close()

    threads = [threading.Thread(target=time_something) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 20
    until(lambda: all(work.running for work in works))
    assert works[0].pauses > 1
    for lock in locks:
        lock.close()


def test_a_claim_that_is_not_granted_in_time_says_who_holds_the_device(timing: DeviceLock) -> None:
    timing.hold_alone()
    late = DeviceLock("cuda:0", wait_s=0.05, pausable=Work())
    with pytest.raises(MachineError, match=r"waited 0\.05 s for cuda:0"):
        late.share()
    timing.release()
    late.share()
    late.close()
    with pytest.raises(MachineError, match="closed"):
        late.share()


def test_paused_work_goes_on_though_the_lock_files_could_not_be_opened_for_a_while(
    timing: DeviceLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, failures = Work(), [OSError(24, "Too many open files"), MachineError("not our folder")]
    lock = DeviceLock("cuda:0", wait_s=20, pausable=work)
    monkeypatch.setattr("kernelwright.evaluator.host.shared_claim.LockFiles", _ImpatientFiles)
    lock.share()
    really_open = LockFiles._open

    def fail_first(files: LockFiles) -> tuple[int, int]:
        if failures:
            raise failures.pop()
        return really_open(files)

    monkeypatch.setattr(LockFiles, "_open", fail_first)
    timing.hold_alone()
    until(lambda: not failures)
    assert not work.running
    timing.release()
    until(lambda: work.running)
    lock.close()


class _ImpatientFiles(LockFiles):
    def __init__(self, device: str, *, wait_s: float) -> None:
        super().__init__(device, wait_s=0.05)


def test_calls_under_tools_are_stopped_for_timing_as_other_work_is(timing: DeviceLock) -> None:
    work = Work()
    tools = DeviceLock("cuda:0", wait_s=20, pausable=work)
    tools.hold_for_tools()
    timing.hold_alone()
    assert (tools.held, work.running) == ("tools", False)
    timing.release()
    until(lambda: work.running)
    timing.hold_alone()
    assert not work.running, "what is under a tool keeps its share"
    timing.release()
    tools.share()
    assert tools.held == "shared"
    tools.close()


def test_calls_under_tools_without_a_share_that_can_be_stopped_keep_others_from_timing(
    timing: DeviceLock,
) -> None:
    tools, taken = DeviceLock("cuda:0", wait_s=20), threading.Event()
    tools.hold_for_tools()
    timer = threading.Thread(target=lambda: (timing.hold_alone(), taken.set()))
    timer.start()
    assert not taken.wait(0.2)
    tools.release()
    assert taken.wait(10)
    timer.join()
    tools.close()


def test_timing_after_calls_under_tools_waits_for_them_and_nobody_else_is_stopped_meanwhile(
    timing: DeviceLock,
) -> None:
    (work,), (shared,) = sharing(1)
    tools, other = (DeviceLock("cuda:0", wait_s=20, pausable=Work()) for _ in range(2))
    tools.hold_for_tools()
    taken, again = threading.Event(), threading.Event()
    timer = threading.Thread(target=lambda: (timing.hold_alone(after_tools=True), taken.set()))
    timer.start()
    assert not taken.wait(0.2)
    assert work.running
    assert work.pauses == 0
    newcomer = threading.Thread(target=lambda: (other.hold_for_tools(), again.set()))
    newcomer.start()
    tools.share()
    assert taken.wait(10)
    assert not work.running
    assert not again.wait(0.1)
    timing.release()
    assert again.wait(10)
    assert (tools.held, other.held) == ("shared", "tools")
    for lock in (shared, tools, other):
        lock.close()
    timer.join()
    newcomer.join()


def test_calls_under_tools_are_one_candidates_at_a_time(timing: DeviceLock) -> None:
    tools, other = (DeviceLock("cuda:0", wait_s=20, pausable=Work()) for _ in range(2))
    tools.hold_for_tools()
    other.share()
    taken = threading.Event()
    waiter = threading.Thread(target=lambda: (other.hold_for_tools(), taken.set()))
    waiter.start()
    assert not taken.wait(0.2)
    timing.hold_alone()
    timing.release()
    tools.share()
    assert taken.wait(10)
    waiter.join()
    for lock in (tools, other):
        lock.close()
