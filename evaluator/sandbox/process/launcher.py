"""The door: a launcher starts sandboxes from any thread and answers for all of them until it is closed."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from types import TracebackType
from typing import Self

from kernelwright.evaluator.sandbox.isolation import landlock_tier
from kernelwright.evaluator.sandbox.isolation.cgroups import ControlGroup, Hierarchies, find_hierarchies
from kernelwright.evaluator.sandbox.isolation.sandbox_policy import SandboxPolicy
from kernelwright.evaluator.sandbox.isolation.uid_pool import UidLease
from kernelwright.evaluator.sandbox.process import cleanup, init_plan, startup
from kernelwright.evaluator.sandbox.process.control_channel import ControlChannel, passing_file
from kernelwright.evaluator.sandbox.process.event_loop import EventLoop, OutputCapture
from kernelwright.evaluator.sandbox.process.sandboxed_process import (
    SandboxedProcess,
    SandboxProcesses,
    SandboxResources,
)
from kernelwright.evaluator.sandbox.process.spawn_thread import SpawnThread
from kernelwright.evaluator.schema.config import SandboxTier
from kernelwright.evaluator.schema.errors import ConfigError, MachineError
from kernelwright.evaluator.schema.evaluation import SandboxReport

SERIALS = itertools.count(1)


@cache
def hierarchies() -> Hierarchies:
    """This process's control groups, found once."""
    return find_hierarchies()


class Launcher:
    """Starts sandboxed programs and ends every one of them when closed. Usable from any thread."""

    def __init__(self, groups: Hierarchies | None = None) -> None:
        """`groups` replaces the control groups found on this machine."""
        self._owner = cleanup.owner_name(next(SERIALS))
        self._numbers = itertools.count(1)
        self._hierarchies = hierarchies() if groups is None else groups
        self._lock = threading.Condition()
        self._starting = 0
        self._running: set[SandboxedProcess] = set()
        self._closed = False
        scratch, folders = tempfile.gettempdir(), [str(folder) for folder in self._hierarchies.folders()]
        cleanup.sweep_abandoned(scratch, folders)
        self._attendant = EventLoop()
        self._spawner = SpawnThread()
        self._keeper = self._start_keeper([scratch, *folders])
        self._inside = passing_file("kernelwright-inside", startup.compiled_inside())

    def start(
        self,
        argv: Sequence[str],
        policy: SandboxPolicy,
        *,
        fds: tuple[int, ...] = (),
        output_bytes: int = 262144,
    ) -> SandboxedProcess:
        """Start a program; `fds` keep their numbers inside.

        Raises:
            MachineError: the tier does not work here, a bind's source or the program does not exist.
            ConfigError: the tier cannot show a bind's source at its target.
        """
        for bind in policy.binds:
            if not bind.source.exists():
                raise MachineError(f"{bind.source} does not exist, so a sandbox cannot see it")
        if policy.tier is not SandboxTier.BUBBLEWRAP:
            landlock_tier.check_targets(policy.binds)
        with self._lock:
            if self._closed:
                raise ConfigError("this launcher is closed")
            self._starting += 1
        try:
            return self._start(startup.StartRequest(argv, policy, fds), output_bytes)
        finally:
            with self._lock:
                self._starting -= 1
                self._lock.notify_all()

    def close(self) -> None:
        """Kill everything it started.

        Raises:
            MachineError: something cannot be killed; everything else has been.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._lock.wait_for(lambda: self._starting == 0)
            running = list(self._running)
        undead = []
        for sandboxed in running:
            try:
                sandboxed.kill()
            except MachineError as error:
                undead.append(error)
        self._spawner.close()
        self._attendant.close()
        if self._keeper.stdin:
            self._keeper.stdin.close()
        self._keeper.wait()
        os.close(self._inside)
        if undead:
            raise undead[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, order: startup.StartRequest, output_bytes: int) -> SandboxedProcess:
        policy = order.policy
        resources = SandboxResources(ControlChannel())
        monitor: subprocess.Popen[bytes] | None = None
        try:
            self._acquire(policy, resources)
            capture, writer = self._capture(output_bytes)
            try:
                monitor = startup.spawn(order, resources, self._spawner, inside=self._inside, output=writer)
            finally:
                os.close(writer)
            processes, uid = startup.introduce(order, monitor, resources, capture, self._owner)
        except BaseException:
            if monitor is not None:
                monitor.kill()
                monitor.wait()
            resources.release()
            raise
        return self._adopt(processes, resources, capture, policy, uid)

    def _start_keeper(self, places: list[str]) -> subprocess.Popen[bytes]:
        argv = (startup.interpreter(), "-I", "-S", "-B", cleanup.__file__, self._owner, *places)
        return self._spawner.spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, fds=())

    def _acquire(self, policy: SandboxPolicy, resources: SandboxResources) -> None:
        if startup.gives_users(policy.tier):
            resources.lease = UidLease.take()
        if self._hierarchies.folders():
            resources.group = ControlGroup(self._hierarchies, f"{self._owner}{next(self._numbers)}")

    def _capture(self, output_bytes: int) -> tuple[OutputCapture, int]:
        reader, writer = os.pipe()
        capture = OutputCapture(reader, output_bytes)
        self._attendant.watch(reader, capture.read)
        return capture, writer

    def _adopt(
        self,
        processes: SandboxProcesses,
        resources: SandboxResources,
        capture: OutputCapture,
        policy: SandboxPolicy,
        uid: int | None,
    ) -> SandboxedProcess:
        report = SandboxReport(
            tier=policy.tier.value,
            limits=self._hierarchies.limits,
            seccomp=init_plan.has_filter(policy.tier),
            uid="own" if uid is None else "dedicated",
        )
        sandboxed = SandboxedProcess(
            processes, resources, capture, policy=policy, report=report, on_end=self._forget
        )
        with self._lock:
            self._running.add(sandboxed)
        self._attendant.watch(resources.control.fileno(), sandboxed.hear)
        group = resources.group
        if resources.scratch or not (group and group.bounds_memory and group.bounds_tasks):
            self._attendant.tick(sandboxed.inspect)
        return sandboxed

    def _forget(self, sandboxed: SandboxedProcess) -> None:
        with self._lock:
            self._running.discard(sandboxed)
