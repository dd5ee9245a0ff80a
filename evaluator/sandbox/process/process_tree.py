"""Process trees as /proc shows them: members, memory, and signals to all of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kernelwright.evaluator.sandbox.policy import FORK_S, FREEZE_S

ASLEEP = frozenset("TtZXD")
"""States in which a task handles a pending stop before it runs code of its own."""
IN_KERNEL = "D"
RUNNING = "R"
DEAD = frozenset("ZX")
KIB = 1024


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    state: str
    threads: int

    @property
    def is_dead(self) -> bool:
        """No thread is left: others may outlive the first, whose state is the process's."""
        return self.state in DEAD and self.threads <= 1


def family(*roots: int) -> list[Process]:
    """Every live descendant of some processes, without these themselves."""
    if any(Path(f"/proc/{root}/task/{root}/children").exists() for root in roots):
        return list(_by_children(*roots))
    return _by_parents(*roots)


def read_process(pid: int) -> Process | None:
    """The current state of a process; None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return Process(pid, int(fields[1]), fields[0].decode(), int(fields[17]))


def tasks(*roots: int) -> int:
    return sum(process.threads for process in family(*roots))


def resident_bytes(*roots: int) -> int:
    """Private and shared memory of all descendants without mapped files; shared pages count for each."""
    total = 0
    for process in family(*roots):
        for task in _tasks(process.pid):
            try:
                status = Path(f"/proc/{process.pid}/task/{task}/status").read_bytes()
            except OSError:
                continue
            if held := [line for line in status.splitlines() if line.startswith((b"RssAnon:", b"RssShmem:"))]:
                total += sum(int(line.split()[1]) for line in held) * KIB
                break  # its other threads share them; one that has ended has none
    return total


def stop(*roots: int) -> None:
    """Stop every descendant and wait until none runs.

    Each must have been signalled: a task that sleeps in the kernel then stops before it runs code of its own.
    One that sleeps within a fork first finishes it, so a tree with such a sleeper is watched for longer.

    Raises:
        TimeoutError: a process did not stop in time.
    """
    deadline = time.monotonic() + FREEZE_S
    clean_scans, clean_since, signalled = 0, 0.0, set[int]()
    while True:
        states = {process.pid: _states(process) for process in family(*roots)}
        running = [pid for pid, seen in states.items() if pid not in signalled or not seen <= ASLEEP]
        if not running:
            clean_scans += 1
            sleeps = any(IN_KERNEL in seen for seen in states.values())
            if clean_scans >= 2 and (not sleeps or time.monotonic() - clean_since >= FORK_S):
                return
            time.sleep(0.0005 if sleeps else 0)
            continue
        clean_scans, clean_since = 0, time.monotonic()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(running)} processes below {roots[0]} did not stop in {FREEZE_S} s")
        for pid in running:
            send(pid, signal.SIGSTOP)
        signalled.update(running)
        time.sleep(0.0001)


def resume(*roots: int) -> None:
    for process in family(*roots):
        send(process.pid, signal.SIGCONT)


def kill(*roots: int) -> None:
    """Kill every descendant, again until there is none: killed processes leave orphans to their reaper."""
    deadline = time.monotonic() + FREEZE_S
    while (alive := family(*roots) or _by_parents(*roots)) and time.monotonic() < deadline:
        for process in alive:
            send(process.pid, signal.SIGKILL)
        time.sleep(0.0005)


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _by_parents(*roots: int) -> list[Process]:
    everyone = [
        process
        for name in os.listdir("/proc")  # noqa: PTH208  # five times faster than iterdir
        if name.isdigit() and (process := read_process(int(name))) and not process.is_dead
    ]
    found: dict[int, Process] = {}
    ancestors = set(roots)
    while more := [one for one in everyone if one.parent in ancestors and one.pid not in found]:
        found.update({process.pid: process for process in more})
        ancestors = {process.pid for process in more}
    return list(found.values())


def _by_children(*roots: int) -> Iterator[Process]:
    """Fast, but may miss processes while others end; callers that need all of them repeat it."""
    waiting, seen = list(roots), set(roots)
    while waiting:
        for pid in _children(waiting.pop()):
            process = read_process(pid)
            if pid not in seen and process and not process.is_dead:
                seen.add(pid)
                waiting.append(pid)
                yield process


def _children(pid: int) -> Iterator[int]:
    for task in _tasks(pid):
        try:
            text = Path(f"/proc/{pid}/task/{task}/children").read_bytes()
        except OSError:
            continue
        yield from map(int, text.split())


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return []


def _states(process: Process) -> set[str]:
    """The states of its threads, and the one it had when its children were listed."""
    try:
        return {process.state} | {
            Path(f"/proc/{process.pid}/task/{task}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
            for task in _tasks(process.pid)
        }
    except OSError:
        return {RUNNING}
