"""A running sandbox: wait for it, freeze it, kill it, and clean up after it."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kernelwright.evaluator.sandbox.isolation.cgroups import NO_GROUP, ControlGroup, GroupFreezer
from kernelwright.evaluator.sandbox.isolation.sandbox_policy import ExitReport, SandboxPolicy
from kernelwright.evaluator.sandbox.isolation.uid_pool import UidLease
from kernelwright.evaluator.sandbox.policy import DEATH_S, OUTPUT_S, TASK_SLACK
from kernelwright.evaluator.sandbox.process import process_tree
from kernelwright.evaluator.sandbox.process.control_channel import ControlChannel
from kernelwright.evaluator.sandbox.process.event_loop import OutputCapture
from kernelwright.evaluator.schema.errors import MachineError
from kernelwright.evaluator.schema.evaluation import SandboxReport

OUT_OF_MEMORY_TEXTS = re.compile(
    r"MemoryError|bad_alloc|[Cc]annot allocate memory|can't allocate memory|out of memory"
)

_PAGE_ENTRY_BYTES = 8
_FILE_OR_SHARED = 1 << 61


@dataclass(slots=True)
class SandboxResources:
    """Resources of this machine that a sandbox holds until it has ended."""

    control: ControlChannel
    """To `init`, or to who waits for a program that it did not start."""
    capture: OutputCapture
    init: ControlChannel | None = None
    """To `init` where it did not start the program; it ends all that is left once this is closed."""
    group: ControlGroup = NO_GROUP
    lease: UidLease | None = None
    scratch: Path | None = None
    """Folder in place of /tmp; its parent belongs to the sandbox too."""

    def release(self) -> bool:
        """Release everything; False when a process of its cgroup does not die."""
        self.control.close()
        if self.init is not None:
            self.init.close()
        gone = self.group.remove()
        if self.scratch:
            shutil.rmtree(self.scratch.parent, ignore_errors=True)
        if self.lease and gone:
            self.lease.release()
        return gone


@dataclass(frozen=True, slots=True)
class SandboxProcesses:
    """The processes of a started sandbox, in this process's pid namespace."""

    monitor: subprocess.Popen[bytes]
    """Our child: bubblewrap, or `init` itself."""
    init: int
    """The trusted first process: pid 1 inside, or the reaper of the tree."""
    worker: int
    """The program to run."""
    features: frozenset[str]
    """Namespaces around them."""
    supervisor: int | None = None
    """The program's parent where that is not `init`."""

    @property
    def roots(self) -> tuple[int, ...]:
        """Processes of ours below which all others are."""
        return (self.init,) if self.supervisor is None else (self.init, self.supervisor)


class SandboxedProcess:
    """One running program and everything it starts. Usable from any thread.

    Whatever waits for its end or ends it raises MachineError where one of its processes cannot be killed.
    """

    def __init__(
        self,
        processes: SandboxProcesses,
        resources: SandboxResources,
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
        self._capture = resources.capture
        self._policy = policy
        self._on_end = on_end
        self._lock = threading.Lock()
        self._gone = threading.Event()
        self._stopped_by: set[str] = set()
        self._killed_for = ""
        self._over_memory = False
        self._status: int | None = None
        self._ended: ExitReport | None = None

    def poll(self) -> ExitReport | None:
        return self.wait(0)

    def wait(self, timeout_s: float | None = None) -> ExitReport | None:
        """Wait for its end; None when `timeout_s` ran out first."""
        return self._finish() if self._gone.wait(timeout_s) else None

    def kill(self) -> ExitReport:
        """Kill every process of the tree, wait until all are gone, and clean up; may be repeated."""
        self._kill_all("killed on request")
        return self._finish()

    def freeze(self, by: str = "") -> None:
        """Stop every task of the tree and wait until none runs; does nothing after its end.

        It stays stopped until everybody who stopped it, each named by `by`, has let it run again. Raises
        MachineError where a task does not stop.
        """
        with self._lock:
            if self._ended or self._gone.is_set():
                return
            self._stopped_by.add(by)
            group = self._resources.group
            try:
                if group.freezes:
                    group.freeze()
                else:
                    process_tree.stop(*self._processes.roots)
            except TimeoutError as error:
                raise MachineError(f"cannot freeze a sandbox: {error}") from error

    def thaw(self, by: str = "") -> None:
        """Let it run again, unless somebody else has stopped it."""
        with self._lock:
            self._stopped_by.discard(by)
            if self._stopped_by or self._ended or self._gone.is_set():
                return
            group = self._resources.group
            if group.freezes:
                group.thaw()
            else:
                process_tree.resume(*self._processes.roots)

    def peek(self, places: Sequence[tuple[int, int]]) -> list[bytes] | None:
        """Read memory at addresses, so many bytes each, or none; None where `open_memory` is None."""
        memory = self.open_memory()
        if memory is None:
            return None
        found: list[bytes] = []
        with memory:
            for address, size in places:
                try:
                    found.append(os.pread(memory.fileno(), size, address))
                except (OSError, OverflowError):
                    found.append(b"")
        return found

    def open_memory(self) -> BinaryIO | None:
        """Open the program's memory for reading; None where the system does not allow it."""
        try:
            return Path(f"/proc/{self.pid}/mem").open("rb", buffering=0)
        except OSError:
            return None

    def freezer(self) -> GroupFreezer | None:
        """The files that stop its tasks and let them run; None where only signals do."""
        return self._resources.group.freezer

    def shares_memory(self, addresses: Iterable[int]) -> bool:
        """Return whether one of the addresses is known to lie in a file's memory or in shared memory.

        Such memory may be mapped more than once (`/proc/PID/pagemap`, bit 61; Linux admin guide).
        """
        try:
            pages = os.open(f"/proc/{self.pid}/pagemap", os.O_RDONLY)
        except OSError:
            return False
        try:
            for page in {address // mmap.PAGESIZE for address in addresses}:
                with contextlib.suppress(OSError, OverflowError):
                    entry = os.pread(pages, _PAGE_ENTRY_BYTES, page * _PAGE_ENTRY_BYTES)
                    if int.from_bytes(entry, sys.byteorder) & _FILE_OR_SHARED:
                        return True
        finally:
            os.close(pages)
        return False

    def output(self) -> str:
        """The beginning and end of its output so far, control characters escaped; never evidence."""
        return self._capture.text()

    def read_control(self) -> float | None:
        """Read the lines about its end; None when who sends them is gone."""
        lines = self._resources.control.read_available()
        if lines is None:
            if self._resources.init is not None:
                self._resources.init.close()
            self._gone.set()
            return None
        for line in lines:
            if line.word == "exited" and line.rest.isdecimal():
                self._status = int(line.rest)
        return 0.0

    def enforce_limits(self) -> bool:
        """Kill it above a limit that no cgroup enforces; False when it has ended."""
        if self._gone.is_set():
            return False
        group = self._resources.group
        if not group.bounds_tasks:
            started, allowed = process_tree.tasks(*self._processes.roots), self._policy.processes + TASK_SLACK
            if started > allowed:
                self._kill_all(f"ran {started} tasks at once, {self._policy.processes} allowed (watchdog)")
        if not group.bounds_memory:
            held = process_tree.resident_bytes(*self._processes.roots)
            if held > self._policy.memory_bytes:
                self._over_memory = True
                self._kill_all(f"held {held} bytes of memory, {self._policy.memory_bytes} allowed (watchdog)")
        if self._resources.scratch:
            used = _folder_bytes(self._resources.scratch)
            if used > self._policy.scratch_bytes:
                self._kill_all(f"filled {used} bytes of scratch, {self._policy.scratch_bytes} allowed")
        return True

    def _kill_all(self, why: str) -> None:
        if self._gone.is_set():
            return
        self._killed_for = self._killed_for or why
        if "pid" not in self._processes.features:
            process_tree.kill(*self._processes.roots)
        self._resources.group.kill()
        process_tree.send(self._processes.init, signal.SIGKILL)

    def _finish(self) -> ExitReport:
        with self._lock:
            if self._ended:
                return self._ended
            group = self._resources.group
            group.kill()  # `init` may be frozen: then it does not see that it has to end
            try:
                self._processes.monitor.wait(DEATH_S)
            except subprocess.TimeoutExpired:
                raise MachineError(_hanging(self._processes.init)) from None
            self._gone.wait(OUTPUT_S)
            kills = group.memory_kills()
            if not self._resources.release():
                raise MachineError(_hanging(self._processes.init))
            self._capture.ended.wait(OUTPUT_S)
            self._ended = self._report(kills)
        self._on_end(self)
        return self._ended

    def _report(self, kills: int) -> ExitReport:
        status = signal.SIGKILL if self._status is None else self._status
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        returncode = None if number else os.WEXITSTATUS(status)
        ended = f"ended by {signal_name(number)}" if number else f"exited with {returncode}"
        killed = self._status is None or (self._killed_for and number == signal.SIGKILL)
        out_of_memory, reason = self._over_memory, self._killed_for if killed else ended
        bounds_data = not self._resources.group.bounds_memory and not self._policy.devices
        limit = f"the limit of {self._policy.memory_bytes} bytes of memory"
        if kills:
            out_of_memory, reason = True, f"{ended}; {limit} killed {kills} processes (counted by the kernel)"
        elif returncode and bounds_data and OUT_OF_MEMORY_TEXTS.search(self._capture.text()):
            out_of_memory, reason = True, f"{ended}; it complained of {limit} (guessed from its output)"
        return ExitReport(returncode, number, out_of_memory, reason or "ended")


def _hanging(pid: int) -> str:
    return (
        f"process {pid} of a sandbox does not die; it hangs in the kernel, most often in a device driver: "
        "see dmesg, and restart the machine if it stays"
    )


def signal_name(number: int) -> str:
    """Such as `SIGSEGV`, or the number of one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _folder_bytes(folder: Path) -> int:
    total = 0
    for root, _, files in os.walk(folder, onerror=None):
        for name in files:
            with contextlib.suppress(OSError):
                total += Path(root, name).lstat().st_blocks * 512
    return total
