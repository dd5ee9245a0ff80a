"""Process trees, looked at while they change."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernelwright.evaluator.sandbox.process import process_tree
from tests.evaluator.sandbox.processes import eventually

CHURN = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        while True:
            if os.fork() == 0:
                os._exit(0)
            os.wait()
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def program(code: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = (sys.executable, "-I", "-S", "-c", code)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process_tree.kill(process.pid)
        process.kill()


def test_a_tree_can_be_watched_while_its_processes_come_and_go() -> None:
    with program(CHURN) as process:
        for _ in range(50):
            assert len(process_tree.family(process.pid)) >= 4
            assert process_tree.tasks(process.pid) >= 4
            assert process_tree.resident_bytes(process.pid) > 0


def test_a_churning_tree_stops_resumes_and_dies() -> None:
    with program(CHURN) as process:
        for _ in range(5):
            process_tree.stop(process.pid)
            before = sorted(one.pid for one in process_tree.family(process.pid))
            time.sleep(0.02)
            assert sorted(one.pid for one in process_tree.family(process.pid)) == before
            process_tree.resume(process.pid)
        process_tree.kill(process.pid)
        assert process_tree.family(process.pid) == []


def test_a_process_whose_first_thread_ended_is_seen_stopped_and_killed() -> None:
    code = """
import ctypes, os, threading
if os.fork() == 0:
    threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()
    print(flush=True)
    ctypes.CDLL(None).syscall(60, 0)
os.wait()
"""
    with program(code) as process:
        eventually(lambda: [one.state for one in process_tree.family(process.pid)] == ["Z"])
        assert process_tree.tasks(process.pid) == 2
        assert process_tree.resident_bytes(process.pid) > 0
        pid = process_tree.family(process.pid)[0].pid
        process_tree.stop(process.pid)
        threads = Path(f"/proc/{pid}/task").iterdir()
        assert sorted((thread / "stat").read_text().split()[2] for thread in threads) == ["T", "Z"]
        process_tree.kill(process.pid)
        assert process_tree.family(process.pid) == []


def test_a_name_that_is_no_text_is_no_obstacle() -> None:
    code = r"""
import os, time
if os.fork() == 0:
    open("/proc/self/comm", "wb").write(b"a) \xff (")
    print(flush=True)
time.sleep(60)
"""
    with program(code) as process:
        assert [one.state in "SR" for one in process_tree.family(process.pid)] == [True]
        assert process_tree.resident_bytes(process.pid) > 0


def test_a_process_that_is_gone_is_none() -> None:
    with subprocess.Popen(("true",)) as process:
        pass
    assert process_tree.read_process(process.pid) is None
    assert process_tree.family(process.pid) == []
    assert process_tree.read_process(os.getpid()) is not None


def test_who_sleeps_in_the_kernel_while_others_are_stopped_is_told_to_stop_too() -> None:
    """It waits in state D for other tasks all the time, and would go on as soon as it is through."""
    code = """
import ctypes, os, time
libc = ctypes.CDLL(None)
for _ in range(4):
    if os.fork() == 0:
        while libc.syscall(324, 1, 0, 0) == 0:
            pass
        os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""
    with program(code) as process:
        time.sleep(0.1)
        if not process_tree.family(process.pid):
            pytest.skip("no membarrier here")
        for _ in range(5):
            process_tree.stop(process.pid)
            time.sleep(0.2)
            assert {one.state for one in process_tree.family(process.pid)} == {"T"}
            process_tree.resume(process.pid)
            time.sleep(0.02)
