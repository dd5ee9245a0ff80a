"""The ways to bound and freeze that this machine may not choose by itself: other cgroups, or none at all."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kernelwright.evaluator.sandbox import Launcher
from kernelwright.evaluator.sandbox.isolation.cgroups import (
    ControlGroup,
    Hierarchies,
    hierarchies,
    version_1_freezer,
)
from kernelwright.evaluator.sandbox.process.cleanup import owner_name

if TYPE_CHECKING:
    from conftest import Inside

COUNTER = """
import mmap, os, sys
memory = mmap.mmap(int(sys.argv[1]), 4096)
place = 0 if os.fork() else 64
number = 0
while True:
    number += 1
    memory[place:place + 8] = number.to_bytes(8, "little")
"""


@pytest.fixture
def groupless(inside: Inside) -> Iterator[Inside]:
    """Sandboxes without any control group."""
    with Launcher(Hierarchies()) as launcher:
        yield replace(inside, launcher=launcher)


@pytest.fixture
def old_freezer(inside: Inside) -> Iterator[Inside]:
    """Sandboxes frozen by the version 1 freezer."""
    folder = version_1_freezer()
    if folder is None:
        pytest.skip("no writable version 1 freezer")
    with Launcher(Hierarchies(freezer=folder)) as launcher:
        yield replace(inside, launcher=launcher)


def check_freezing(inside: Inside) -> None:
    shared = os.memfd_create("counters")
    os.ftruncate(shared, 4096)
    with mmap.mmap(shared, 4096) as counters:
        running = inside.start(COUNTER, shared, fds=(shared,))
        os.close(shared)
        for _ in range(3):
            before, deadline = counters[:], time.monotonic() + 60
            while counters[:8] == before[:8] or counters[64:72] == before[64:72]:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            running.freeze()
            still = counters[:]
            time.sleep(0.05)
            assert counters[:] == still
            running.thaw()
        running.freeze()
        assert running.kill().signal == 9


def test_a_tree_freezes_by_signals(groupless: Inside) -> None:
    check_freezing(groupless)


def test_a_tree_freezes_by_the_old_freezer(old_freezer: Inside) -> None:
    check_freezing(old_freezer)


def test_the_watchdog_ends_a_memory_bomb_of_many_processes(groupless: Inside) -> None:
    code = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        block = bytearray(b"x") * (60 << 20)
        time.sleep(60)
for _ in range(8):
    os.wait()
"""
    report, _ = groupless.run(code)
    assert report.out_of_memory
    assert "watchdog" in report.reason


def test_one_process_meets_its_own_memory_limit(groupless: Inside) -> None:
    report, _ = groupless.run("block = bytearray(1 << 30)")
    assert report.out_of_memory
    assert "guessed" in report.reason


def test_a_fork_bomb_is_bounded_without_groups(groupless: Inside) -> None:
    code = """
import os, time
started = 0
try:
    while started < 500:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        started += 1
except OSError:
    print(started)
else:
    time.sleep(60)
"""
    report, output = groupless.run(code, memory_bytes=4 << 30)
    assert "tasks at once" in report.reason or int(output) < 400


def test_signals_that_would_undo_a_freeze_cannot_be_ordered(groupless: Inside) -> None:
    code = """
import ctypes, errno, fcntl, platform, signal
libc = ctypes.CDLL(None, use_errno=True)
event = (ctypes.c_int * 16)(0, 0, signal.SIGCONT, 0)
timer = ctypes.c_int()
number = 222 if platform.machine() == "x86_64" else 107
print(libc.syscall(number, 1, event, ctypes.byref(timer)), errno.errorcode[ctypes.get_errno()])
try:
    fcntl.fcntl(0, 10, signal.SIGCONT)
except OSError as error:
    print(errno.errorcode[error.errno])
"""
    assert groupless.run(code)[1] == "-1 EPERM\nEPERM\n"


def test_what_is_found_works() -> None:
    found = hierarchies()
    assert found == hierarchies.__wrapped__(), "found anew"
    if not found.folders():
        pytest.skip("no control groups here")
    group = ControlGroup(found, f"{owner_name(0)}test")
    group.bound(memory_bytes=1 << 26, tasks=4)
    assert group.memory_kills() == 0
    assert group.remove()
    assert group.remove()
