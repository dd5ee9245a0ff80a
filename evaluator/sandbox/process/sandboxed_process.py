"""A running sandbox: waiting for it, freezing it, ending it, and cleaning up behind it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.evaluator.sandbox.isolation.cgroups import ControlGroup
from kernelwright.evaluator.sandbox.isolation.sandbox_policy import ExitReport, SandboxPolicy
from kernelwright.evaluator.sandbox.isolation.uid_pool import UidLease
from kernelwright.evaluator.sandbox.process import process_tree
from kernelwright.evaluator.sandbox.process.control_channel import ControlChannel
from kernelwright.evaluator.sandbox.process.event_loop import OutputCapture
from kernelwright.evaluator.schema.config import SandboxTier
from kernelwright.evaluator.schema.errors import MachineError
from kernelwright.evaluator.schema.evaluation import SandboxReport

DEATH_PATIENCE_S = 30.0
OUTPUT_PATIENCE_S = 2.0
TASK_SLACK = 8
"""Above what resource limits may let through: tasks of ours that they count or do not count."""
MEMORY_COMPLAINTS = re.compile(
    r"MemoryError|bad_alloc|[Cc]annot allocate memory|can't allocate memory|out of memory"
)


@dataclass(slots=True)
class SandboxResources:
    """What a sandbox holds on this machine until it has ended."""

    control: ControlChannel
    group: ControlGroup | None = None
    lease: UidLease | None = None
    scratch: Path | None = None
    """Stands in for /tmp; its parent is ours too."""

    def release(self) -> bool:
        """Give everything back; False when something of it would not go."""
        self.control.close()
        gone = self.group is None or self.group.remove()
        if self.scratch:
            shutil.rmtree(self.scratch.parent, ignore_errors=True)
        if self.lease and gone:
            self.lease.release()
        return gone


@dataclass(frozen=True, slots=True)
class SandboxProcesses:
    """Who is who in a started sandbox, in this process's pid namespace."""

    monitor: subprocess.Popen[bytes]
    """Our child: bubblewrap, or the program inside itself."""
    init: int
    """The trusted program inside: pid 1 there, or the reaper of the tree."""
    worker: int
    """The program that was asked for."""
    features: frozenset[str]
    """Namespaces around them."""


class SandboxedProcess:
    """One running program and everything it starts. Usable from any thread."""

    def __init__(
        self,
        processes: SandboxProcesses,
        resources: SandboxResources,
        capture: OutputCapture,
        *,
        policy: SandboxPolicy,
        report: SandboxReport,
        on_end: Callable[[SandboxedProcess], None],
    ) -> None:
        self.pid = processes.worker
        """The program's process, as this process sees it."""
        self.report = report
        self.features = processes.features
        """Namespaces around it: `user`, `mount`, `pid`, `net`, `ipc`, `uts`, `cgroup`."""
        self._processes = processes
        self._resources = resources
        self._capture = capture
        self._policy = policy
        self._on_end = on_end
        monitored = policy.tier is not SandboxTier.BUBBLEWRAP
        self._own_tasks = len({processes.init} | ({processes.monitor.pid} if monitored else set()))
        self._lock = threading.Lock()
        self._gone = threading.Event()
        self._killed_for = ""
        self._over_memory = False
        self._status: int | None = None
        self._peak_bytes: int | None = None
        self._ended: ExitReport | None = None

    def poll(self) -> ExitReport | None:
        """How it ended, or None while it runs."""
        return self.wait(0)

    def wait(self, timeout_s: float | None = None) -> ExitReport | None:
        """Wait for its end; None when `timeout_s` ran out first.

        Raises:
            MachineError: it ended, but something of it cannot be killed.
        """
        return self._finish() if self._gone.wait(timeout_s) else None

    def kill(self) -> ExitReport:
        """Kill every process of the tree, wait until all are gone, and clean up; harmless when repeated.

        Raises:
            MachineError: something of it cannot be killed.
        """
        self._strike("killed on request")
        return self._finish()

    def freeze(self) -> None:
        """Stop every task of the tree; returns when none runs. Nothing happens after its end.

        Raises:
            MachineError: a task would not stop.
        """
        with self._lock:
            if self._ended or self._gone.is_set():
                return
            group = self._resources.group
            try:
                if group and group.freezes:
                    group.freeze()
                else:
                    process_tree.stop(self._processes.init)
            except TimeoutError as error:
                raise MachineError(f"cannot freeze a sandbox: {error}") from error

    def thaw(self) -> None:
        """Let a frozen tree run again."""
        with self._lock:
            if self._ended or self._gone.is_set():
                return
            group = self._resources.group
            if group and group.freezes:
                group.thaw()
            else:
                process_tree.resume(self._processes.init)

    def peek(self, places: Sequence[tuple[int, int]]) -> list[bytes] | None:
        """What lies at addresses of the program, so many bytes each; None where the system lets nobody look.

        What cannot be read is no byte.
        """
        try:
            memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY)
        except OSError:
            return None
        found: list[bytes] = []
        try:
            for address, size in places:
                try:
                    found.append(os.pread(memory, size, address))
                except (OSError, OverflowError):
                    found.append(b"")
        finally:
            os.close(memory)
        return found

    def output(self) -> str:
        """What it printed so far: head and tail, control characters escaped; never evidence."""
        return self._capture.text()

    def tasks(self) -> int:
        """Live tasks (processes and threads) of the tree."""
        with self._lock:
            if self._ended or self._gone.is_set():
                return 0
            counted = self._resources.group.tasks() if self._resources.group else None
            return (
                process_tree.tasks(self._processes.init)
                if counted is None
                else max(0, counted - self._own_tasks)
            )

    def hear(self) -> float | None:
        """Read what the program inside says; called when there is something. None when it is gone."""
        lines = self._resources.control.read_available()
        if lines is None:
            self._gone.set()
            return None
        for line in lines:
            words = line.rest.split()
            if line.word == "exited" and len(words) == 2 and all(map(str.isdecimal, words)):
                self._status, self._peak_bytes = int(words[0]), int(words[1]) * process_tree.KIB
        return 0.0

    def inspect(self) -> bool:
        """End it if it holds too much of what no cgroup bounds; False when it has ended."""
        if self._gone.is_set():
            return False
        group = self._resources.group
        if not (group and group.bounds_tasks):
            started, allowed = process_tree.tasks(self._processes.init), self._policy.processes + TASK_SLACK
            if started > allowed:
                self._strike(f"ran {started} tasks at once, {self._policy.processes} allowed (watchdog)")
        if not (group and group.bounds_memory):
            held = process_tree.resident_bytes(self._processes.init)
            self._peak_bytes = max(held, self._peak_bytes or 0)
            if held > self._policy.memory_bytes:
                self._over_memory = True
                self._strike(f"held {held} bytes of memory, {self._policy.memory_bytes} allowed (watchdog)")
        if self._resources.scratch:
            used = _folder_bytes(self._resources.scratch)
            if used > self._policy.scratch_bytes:
                self._strike(f"filled {used} bytes of scratch, {self._policy.scratch_bytes} allowed")
        return True

    def _strike(self, why: str) -> None:
        """Kill every process there is."""
        if self._gone.is_set():
            return
        self._killed_for = self._killed_for or why
        if "pid" not in self._processes.features:
            process_tree.kill(self._processes.init)
        if self._resources.group:
            self._resources.group.kill()
        process_tree.send(self._processes.init, signal.SIGKILL)

    def _finish(self) -> ExitReport:
        with self._lock:
            if self._ended:
                return self._ended
            try:
                self._processes.monitor.wait(DEATH_PATIENCE_S)
            except subprocess.TimeoutExpired:
                raise MachineError(_undead(self._processes.init)) from None
            self._gone.wait(OUTPUT_PATIENCE_S)
            group = self._resources.group
            kills = group.memory_kills() if group else 0
            peak = group.peak_memory_bytes() if group else None
            if not self._resources.release():
                raise MachineError(_undead(self._processes.init))
            self._capture.ended.wait(OUTPUT_PATIENCE_S)
            self._ended = self._judge(kills, peak if peak is not None else self._peak_bytes)
        self._on_end(self)
        return self._ended

    def _judge(self, kills: int, peak_bytes: int | None) -> ExitReport:
        status = signal.SIGKILL if self._status is None else self._status
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        returncode = None if number else os.WEXITSTATUS(status)
        ended = f"ended by {_name(number)}" if number else f"exited with {returncode}"
        killed = self._status is None or (self._killed_for and number == signal.SIGKILL)
        out_of_memory, reason = self._over_memory, self._killed_for if killed else ended
        limit = f"the limit of {self._policy.memory_bytes} bytes of memory"
        if kills:
            out_of_memory, reason = True, f"{ended}; {limit} killed {kills} processes (counted by the kernel)"
        elif returncode and self._memory_is_rationed() and MEMORY_COMPLAINTS.search(self._capture.text()):
            out_of_memory, reason = True, f"{ended}; it complained of {limit} (guessed from its output)"
        return ExitReport(returncode, number, out_of_memory, peak_bytes, reason or "ended")

    def _memory_is_rationed(self) -> bool:
        group = self._resources.group
        return not (group and group.bounds_memory) and not self._policy.devices


def _undead(pid: int) -> str:
    return (
        f"process {pid} of a sandbox does not die; it hangs in the kernel, most often in a device driver: "
        "see dmesg, and restart the machine if it stays"
    )


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _folder_bytes(folder: Path) -> int:
    total = 0
    for root, _, files in os.walk(folder, onerror=None):
        for name in files:
            try:
                total += Path(root, name).lstat().st_blocks * 512
            except OSError:
                continue
    return total
