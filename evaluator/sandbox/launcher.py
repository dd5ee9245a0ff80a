"""Starts sandboxes: processes, groups, user and plan are put together here and nowhere else."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from evaluator.config import SandboxTier
from evaluator.errors import ConfigError, MachineError
from evaluator.evaluation import SandboxReport
from evaluator.sandbox import bubblewrap, confinement, leftovers, plan, uids
from evaluator.sandbox.attendant import Attendant, Capture
from evaluator.sandbox.cgroups import ControlGroup, Hierarchies, find_hierarchies
from evaluator.sandbox.control import Control, Line, passing_file
from evaluator.sandbox.policy import SandboxPolicy
from evaluator.sandbox.sandboxed import Processes, Resources, Sandboxed
from evaluator.sandbox.spawner import Spawner
from evaluator.sandbox.uids import Lease

START_PATIENCE_S = 60.0
SYS_ADMIN = 21
SERIALS = itertools.count(1)
INSIDE = Path(__file__).with_name("inside.py")


@cache
def hierarchies() -> Hierarchies:
    """This process's control groups, found once."""
    return find_hierarchies()


def gives_users(tier: SandboxTier) -> bool:
    """Whether a sandbox of this tier gets a user of its own here."""
    if tier is SandboxTier.NONE or not uids.may_switch():
        return False
    return tier is SandboxTier.CONFINED or uids.has_capabilities(SYS_ADMIN)


class Launcher:
    """Starts sandboxed programs and ends every one of them when closed. Usable from any thread."""

    def __init__(self) -> None:
        self._owner = leftovers.owner_name(next(SERIALS))
        self._numbers = itertools.count(1)
        self._hierarchies = hierarchies()
        self._lock = threading.Lock()
        self._running: set[Sandboxed] = set()
        self._closed = False
        folders = [*map(str, self._hierarchies.folders()), tempfile.gettempdir()]
        leftovers.sweep_abandoned(folders)
        self._attendant = Attendant()
        self._spawner = Spawner()
        self._keeper = self._start_keeper(folders)

    def start(
        self,
        argv: Sequence[str],
        policy: SandboxPolicy,
        *,
        fds: tuple[int, ...] = (),
        output_bytes: int = 262144,
    ) -> Sandboxed:
        """Start a program; `fds` keep their numbers inside.

        Raises:
            MachineError: the tier does not work here, or the program cannot be executed.
            ConfigError: the tier cannot show a bind's source at its target.
        """
        self._check(policy)
        resources = Resources(Control())
        monitor: subprocess.Popen[bytes] | None = None
        try:
            if gives_users(policy.tier):
                resources.lease = Lease.take()
            if self._hierarchies.folders():
                resources.group = ControlGroup(self._hierarchies, f"{self._owner}{next(self._numbers)}")
            monitor, capture = self._spawn(policy, resources, fds, output_bytes)
            processes, uid = self._introduce(monitor, capture, resources, argv=argv, policy=policy, fds=fds)
        except BaseException:
            if monitor is not None:
                monitor.kill()
                monitor.wait()
            resources.release()
            raise
        return self._adopt(processes, resources, capture, policy, uid)

    def close(self) -> None:
        """Kill everything it started."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            running = list(self._running)
        for sandboxed in running:
            sandboxed.kill()
        self._spawner.close()
        self._attendant.close()
        if self._keeper.stdin:
            self._keeper.stdin.close()
        self._keeper.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self, policy: SandboxPolicy) -> None:
        if self._closed:
            raise ConfigError("this launcher is closed")
        if policy.tier is not SandboxTier.BUBBLEWRAP:
            confinement.check_targets(policy.binds)

    def _start_keeper(self, folders: list[str]) -> subprocess.Popen[bytes]:
        argv = (_interpreter(), "-I", "-S", "-B", leftovers.__file__, self._owner, *folders)
        return self._spawner.spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, fds=())

    def _spawn(
        self, policy: SandboxPolicy, resources: Resources, fds: tuple[int, ...], output_bytes: int
    ) -> tuple[subprocess.Popen[bytes], Capture]:
        uid = resources.lease.uid if resources.lease else None
        control = resources.control
        files: list[int] = []
        reader, writer = os.pipe()
        capture = Capture(reader, output_bytes)
        self._attendant.watch(reader, capture.read)
        try:
            if policy.tier is SandboxTier.BUBBLEWRAP:
                command, inside = self._bubblewrap_command(policy, uid, files), bubblewrap.INSIDE
            else:
                command, inside = [], str(INSIDE)
            command += [_interpreter(), "-I", "-S", "-B", inside, str(control.child), policy.tier.value]
            passed = (control.child, *files, *fds)
            monitor = self._spawner.spawn(command, stdin=subprocess.DEVNULL, stdout=writer, fds=passed)
        except OSError as error:
            raise MachineError(f"cannot start a sandbox: {error}") from error
        finally:
            for descriptor in (writer, *files):
                os.close(descriptor)
            control.close_child()
        return monitor, capture

    def _bubblewrap_command(self, policy: SandboxPolicy, uid: int | None, files: list[int]) -> list[str]:
        program = bubblewrap.find_bubblewrap()
        if program is None:
            raise MachineError("bubblewrap is not installed: apt-get install bubblewrap")
        passwd, group = bubblewrap.users(uid if uid is not None else os.getuid())
        files += [passing_file("passwd", passwd), passing_file("group", group)]
        words = bubblewrap.arguments(program, policy, uid, (files[0], files[1]))
        files.append(passing_file("arguments", b"\0".join(map(os.fsencode, words))))
        return [str(program.path), "--args", str(files[2]), "--"]

    def _introduce(
        self,
        monitor: subprocess.Popen[bytes],
        capture: Capture,
        resources: Resources,
        *,
        argv: Sequence[str],
        policy: SandboxPolicy,
        fds: tuple[int, ...],
    ) -> tuple[Processes, int | None]:
        """Meet the program inside, put it into its groups, and have it start the one asked for."""
        deadline = time.monotonic() + START_PATIENCE_S
        hello = _expect(resources.control, "hello", capture, deadline)
        group = resources.group
        if group:
            group.bound(memory_bytes=policy.memory_bytes, tasks=policy.processes + 1)
            group.add(hello.pid)
        features = frozenset(hello.rest.split())
        uid = _user(resources, policy, features)
        if "mount" not in features:
            resources.scratch = Path(tempfile.mkdtemp(prefix=f"{self._owner}scratch-"))
        _hand_over(policy, resources.scratch, uid)
        setting = plan.Setting(
            features=features,
            uid=uid,
            scratch=resources.scratch,
            memory_bounded=bool(group and group.bounds_memory),
            tasks_bounded=self._hierarchies.limits != "rlimits",
            freezes_by_signals=not (group and group.freezes),
        )
        resources.control.send(plan.plan(argv, policy, fds, setting))
        worker = _expect(resources.control, "worker", capture, deadline)
        _expect(resources.control, "started", capture, deadline)
        return Processes(monitor, hello.pid, worker.pid, features), uid

    def _adopt(
        self,
        processes: Processes,
        resources: Resources,
        capture: Capture,
        policy: SandboxPolicy,
        uid: int | None,
    ) -> Sandboxed:
        report = SandboxReport(
            tier=policy.tier.value,
            limits=self._hierarchies.limits,
            seccomp=plan.has_filter(policy.tier),
            uid="own" if uid is None else "dedicated",
        )
        sandboxed = Sandboxed(
            processes, resources, capture, policy=policy, report=report, on_end=self._forget
        )
        with self._lock:
            self._running.add(sandboxed)
        self._attendant.watch(resources.control.fileno(), sandboxed.hear)
        if resources.scratch or not (resources.group and resources.group.bounds_memory):
            self._attendant.tick(sandboxed.inspect)
        if self._closed:
            sandboxed.kill()
        return sandboxed

    def _forget(self, sandboxed: Sandboxed) -> None:
        with self._lock:
            self._running.discard(sandboxed)


def _interpreter() -> str:
    return str(Path(sys.executable).resolve())


def _expect(control: Control, word: str, capture: Capture, deadline: float) -> Line:
    """The line that must come next; what bubblewrap or the program inside complained of otherwise."""
    try:
        line = control.receive(deadline)
    except TimeoutError:
        raise MachineError(f"a sandbox did not start within {START_PATIENCE_S:.0f} s") from None
    if line is None:
        capture.ended.wait(1.0)
        raise MachineError(f"a sandbox did not start: {capture.text().strip() or 'it died without a word'}")
    if line.word != word:
        raise MachineError(f"a sandbox did not start: {line.rest}")
    return line


def _user(resources: Resources, policy: SandboxPolicy, features: frozenset[str]) -> int | None:
    """The user to become, if there is one and it could reach the interpreter."""
    if resources.lease is None:
        return None
    if policy.tier is SandboxTier.CONFINED and "mount" not in features:
        reachable = not any(confinement.closed_ancestor(bind.source) for bind in confinement.visible(policy))
        return resources.lease.uid if reachable else None
    return resources.lease.uid


def _hand_over(policy: SandboxPolicy, scratch: Path | None, uid: int | None) -> None:
    """Give the sandbox's own user what it may write, and make sure that it can read the rest."""
    if uid is None:
        return
    for bind in policy.binds:
        if bind.writable:
            _give(bind.source, uid)
        elif not bind.source.stat().st_mode & 0o004:
            raise MachineError(f"{bind.source} is not readable by the sandbox's own user: chmod o+rX it")
    if scratch:
        _give(scratch, uid)


def _give(path: Path, uid: int) -> None:
    os.chown(path, uid, uid, follow_symlinks=False)
    for root, folders, files, descriptor in os.fwalk(path, follow_symlinks=False):
        del root
        for name in (*folders, *files):
            os.chown(name, uid, uid, dir_fd=descriptor, follow_symlinks=False)
