"""Starts sandboxes from any thread, and ends all of them when it is closed."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import Self

from kernelwright.evaluator.sandbox.isolation import landlock_tier
from kernelwright.evaluator.sandbox.isolation.cgroups import ControlGroup, Hierarchies, hierarchies
from kernelwright.evaluator.sandbox.isolation.sandbox_policy import SandboxPolicy
from kernelwright.evaluator.sandbox.isolation.uid_pool import UidLease
from kernelwright.evaluator.sandbox.policy import MAX_REFUSALS, OUTPUT_BYTES
from kernelwright.evaluator.sandbox.process import cleanup, init_plan, startup
from kernelwright.evaluator.sandbox.process.control_channel import ControlChannel, passing_file
from kernelwright.evaluator.sandbox.process.event_loop import EventLoop, OutputCapture
from kernelwright.evaluator.sandbox.process.fork_servers import ForkServers
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
        cleanup.sweep(scratch, folders)
        self._event_loop = EventLoop()
        self._spawner = SpawnThread()
        self._servers = ForkServers(self._spawner)
        self._refusals = 0
        """Programs in a row that could not be forked: an old kernel, or a container that forbids it."""
        argv = (startup.interpreter(), "-I", "-S", "-B", cleanup.__file__, self._owner, scratch, *folders)
        self._cleaner = self._spawner.spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, fds=())
        self._init_code = passing_file("kernelwright-init", startup.compiled_init())

    def start(
        self,
        argv: Sequence[str],
        policy: SandboxPolicy,
        *,
        fds: tuple[int, ...] = (),
        output_bytes: int = OUTPUT_BYTES,
        preload: tuple[str, ...] = (),
    ) -> SandboxedProcess:
        """Start a program; `fds` keep their numbers inside.

        With `preload`, the command is `python ... -c`, and where the machine allows it the program is forked
        from an interpreter that has imported these modules. All else is as if it had been executed.

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
            if preload and (refusals := self._refusals) < MAX_REFUSALS:
                try:
                    forked = self._start(argv, policy, fds, output_bytes, preload)
                except MachineError:
                    self._refusals = refusals + 1  # once for all that fail together
                else:
                    self._refusals = 0
                    return forked
            return self._start(argv, policy, fds, output_bytes)
        finally:
            with self._lock:
                self._starting -= 1
                self._lock.notify_all()

    def close(self) -> None:
        """Kill every sandbox; raises MachineError after the last where one of them cannot be killed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._servers.close()
        with self._lock:
            self._lock.wait_for(lambda: self._starting == 0)
            running = list(self._running)
        failures = []
        for sandboxed in running:
            try:
                sandboxed.kill()
            except MachineError as error:
                failures.append(error)
        self._spawner.close()
        self._event_loop.close()
        if self._cleaner.stdin:
            self._cleaner.stdin.close()
        self._cleaner.wait()
        os.close(self._init_code)
        if failures:
            raise failures[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _start(
        self,
        argv: Sequence[str],
        policy: SandboxPolicy,
        fds: tuple[int, ...],
        output_bytes: int,
        preload: tuple[str, ...] = (),
    ) -> SandboxedProcess:
        name = f"{self._owner}{next(self._numbers)}-"
        control, (reader, writer) = ControlChannel(), os.pipe()
        resources = SandboxResources(control, OutputCapture(reader, output_bytes))
        self._event_loop.watch(reader, resources.capture.read)
        request = init_plan.StartRequest(argv, policy, fds, name, writer, preload)
        monitor: subprocess.Popen[bytes] | None = None
        try:
            if startup.gives_users(policy.tier):
                resources.lease = UidLease.take()
            resources.group = ControlGroup(self._hierarchies, name)
            monitor = startup.spawn(request, resources, self._spawner, self._init_code)
            processes, uid = startup.start_program(request, monitor, resources, self._servers)
        except BaseException:
            if monitor is not None:
                monitor.kill()
                monitor.wait()
            cleanup.kill_starting(name)
            resources.release()
            raise
        finally:
            os.close(writer)
        return self._register(processes, resources, policy, uid)

    def _register(
        self, processes: SandboxProcesses, resources: SandboxResources, policy: SandboxPolicy, uid: int | None
    ) -> SandboxedProcess:
        report = SandboxReport(
            tier=policy.tier.value,
            limits=self._hierarchies.limits,
            seccomp=init_plan.has_filter(policy.tier),
            uid="own" if uid is None else "dedicated",
        )
        sandboxed = SandboxedProcess(processes, resources, policy=policy, report=report, on_end=self._forget)
        with self._lock:
            self._running.add(sandboxed)
        self._event_loop.watch(resources.control.fileno(), sandboxed.read_control)
        group = resources.group
        if resources.scratch or not (group.bounds_memory and group.bounds_tasks):
            self._event_loop.tick(sandboxed.enforce_limits)
        return sandboxed

    def _forget(self, sandboxed: SandboxedProcess) -> None:
        with self._lock:
            self._running.discard(sandboxed)
