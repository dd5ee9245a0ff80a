"""Control groups: the hierarchies this process may use, and one group for each sandbox.

Version 2 limits memory and tasks where those controllers are delegated; version 1 where its hierarchies are
writable. Freezing and killing need no controller, so a version 2 group may serve beside version 1 limits.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from kernelwright.evaluator.sandbox.policy import FREEZE_S
from kernelwright.evaluator.sandbox.process import cleanup


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Folders below which a sandbox's groups are made; None where this machine offers none."""

    memory: Path | None = None
    """Version 1 memory controller."""
    pids: Path | None = None
    """Version 1 pids controller."""
    freezer: Path | None = None
    """Version 1 freezer."""
    unified: Path | None = None
    """Version 2."""
    unified_limits: bool = False
    """Version 2 has the memory and pids controllers there."""

    @property
    def limits(self) -> str:
        """The mechanism that limits memory and tasks: `cgroup v2`, `cgroup v1` or `rlimits`."""
        if self.unified_limits:
            return "cgroup v2"
        return "cgroup v1" if self.memory and self.pids else "rlimits"

    def folders(self) -> tuple[Path, ...]:
        used = (self.memory, self.pids, self.freezer, self.unified)
        return tuple(dict.fromkeys(folder for folder in used if folder))


@cache
def hierarchies() -> Hierarchies:
    """Those this process may use, tested once with a short-lived process; takes a few milliseconds."""
    own = _own_groups()
    mounts = _mounts()
    unified, limits = _find_unified(own, mounts)
    memory = pids = freezer = None
    if not limits:
        memory = _usable(_folder("memory", own, mounts), "memory.limit_in_bytes")
        pids = _usable(_folder("pids", own, mounts), "pids.max")
    if unified is None:
        freezer = version_1_freezer()
    return Hierarchies(memory, pids, freezer, unified, limits)


def version_1_freezer() -> Path | None:
    """The version 1 freezer, which `hierarchies` ignores where version 2 can freeze."""
    return _usable(_folder("freezer", _own_groups(), _mounts()), "freezer.state")


@dataclass(frozen=True, slots=True)
class GroupFreezer:
    """Files of a group that stop its tasks and let them run, and their words for that."""

    control: Path
    state: Path
    stop: str
    go: str
    stopped: str
    """In `state` once every task has stopped."""


class ControlGroup:
    """One sandbox's groups in every hierarchy in use."""

    def __init__(self, hierarchies: Hierarchies, name: str) -> None:
        self._hierarchies = hierarchies
        self._folders = tuple(folder / name for folder in hierarchies.folders())
        self._memory = hierarchies.memory and hierarchies.memory / name
        self._unified = hierarchies.unified and hierarchies.unified / name
        self._freezer = hierarchies.freezer and hierarchies.freezer / name
        self._pids = hierarchies.pids and hierarchies.pids / name
        for folder in self._folders:
            folder.mkdir(exist_ok=True)

    @property
    def bounds_memory(self) -> bool:
        return bool(self._memory or self._hierarchies.unified_limits)

    @property
    def bounds_tasks(self) -> bool:
        return bool(self._pids or self._hierarchies.unified_limits)

    @property
    def freezes(self) -> bool:
        return self.freezer is not None

    @property
    def freezer(self) -> GroupFreezer | None:
        """The files that freeze it; None where it cannot."""
        if self._unified:
            control, state = (self._unified / f"cgroup.{name}" for name in ("freeze", "events"))
            return GroupFreezer(control, state, "1", "0", "frozen 1")
        if self._freezer:
            state = self._freezer / "freezer.state"
            return GroupFreezer(state, state, "FROZEN", "THAWED", "FROZEN")
        return None

    def bound(self, *, memory_bytes: int, tasks: int) -> None:
        """Set the limits; a lower limit of the machine still holds."""
        if self._unified and self._hierarchies.unified_limits:
            (self._unified / "memory.max").write_text(str(memory_bytes))
            (self._unified / "pids.max").write_text(str(tasks))
            cleanup.write(f"{self._unified}/memory.swap.max", "0")
        if self._memory:
            (self._memory / "memory.limit_in_bytes").write_text(str(memory_bytes))
            cleanup.write(f"{self._memory}/memory.memsw.limit_in_bytes", str(memory_bytes))
        if self._pids:
            (self._pids / "pids.max").write_text(str(tasks))

    def add(self, pid: int) -> None:
        """Move a process in, with all that it starts from then on.

        Often takes ten milliseconds, in which the kernel waits for all processors.
        """
        for folder in self._folders:
            if pid not in cleanup.members(str(folder)):
                (folder / "cgroup.procs").write_text(str(pid))

    def freeze(self) -> None:
        """Stop every task and wait until all have stopped; raises TimeoutError where one does not in time."""
        if (freezer := self.freezer) is None:
            return
        freezer.control.write_text(freezer.stop)
        deadline = time.monotonic() + FREEZE_S
        pause = 0.00005
        while freezer.stopped not in freezer.state.read_text():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{freezer.state} did not say {freezer.stopped!r} within {FREEZE_S} s")
            time.sleep(pause)
            pause = min(0.01, pause * 2)

    def thaw(self) -> None:
        if freezer := self.freezer:
            freezer.control.write_text(freezer.go)

    def kill(self) -> None:
        for folder in self._folders[-1:]:
            cleanup.kill_cgroup(str(folder))

    def memory_kills(self) -> int:
        """Number of processes the kernel killed for this group's memory limit."""
        if self._unified and self._hierarchies.unified_limits:
            return _field(self._unified / "memory.events", "oom_kill")
        return _field(self._memory / "memory.oom_control", "oom_kill") if self._memory else 0

    def remove(self) -> bool:
        """Kill the rest and remove the groups; False when a process does not die."""
        gone = [cleanup.remove_cgroup(str(folder)) for folder in reversed(self._folders)]
        return all(gone)


NO_GROUP: Final = ControlGroup(Hierarchies(), "")
"""A group of no hierarchy: it bounds, freezes and kills nothing."""


def _field(file: Path, name: str) -> int:
    fields = dict(line.partition(" ")[::2] for line in file.read_text().splitlines())
    return int(fields.get(name, 0))


def _own_groups() -> dict[str, str]:
    """This process's group by controller name, which is empty for version 2."""
    file = Path("/proc/self/cgroup")
    groups = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        _, controllers, group = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), group))
    return groups


def _mounts() -> dict[str, tuple[Path, str]]:
    """Mount point, and the group shown at it, by controller name, which is empty for version 2.

    Of several the first counts: later ones are copies, such as those in a folder made for a `chroot`.
    """
    mounts: dict[str, tuple[Path, str]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, _, options) = before.split(), after.split()[:3]
        if kind == "cgroup2":
            mounts.setdefault("", (Path(fields[4]), fields[3]))
        elif kind == "cgroup":
            for option in options.split(","):
                mounts.setdefault(option, (Path(fields[4]), fields[3]))
    return mounts


def _folder(controller: str, own: dict[str, str], mounts: dict[str, tuple[Path, str]]) -> Path | None:
    if controller not in mounts or controller not in own:
        return None
    point, root = mounts[controller]
    group = own[controller]
    below = group.removeprefix(root.rstrip("/")) if group.startswith(root) else "/"
    folder = point / below.strip("/")
    return folder if folder.is_dir() else point


def _find_unified(own: dict[str, str], mounts: dict[str, tuple[Path, str]]) -> tuple[Path | None, bool]:
    """A usable version 2 folder, and True where memory and tasks can be limited below it.

    A group must enable controllers for its children, so the own group is tried, then its parent; moving
    there needs write access to both, which delegation gives.
    """
    folder = _folder("", own, mounts)
    if folder is None:
        return None, False
    point = mounts[""][0]
    for parent in dict.fromkeys((folder, folder.parent if folder != point else folder)):
        enabled = parent / "cgroup.subtree_control"
        if (
            enabled.exists()
            and {"memory", "pids"} <= set(enabled.read_text().split())
            and _usable(parent, "memory.max")
        ):
            return parent, True
    return _usable(folder, "cgroup.freeze"), False


def _usable(folder: Path | None, file: str) -> Path | None:
    """The folder, if a group made in it has the file and accepts a process of ours."""
    if folder is None:
        return None
    trial = folder / f"{cleanup.owner_name(0)}trial-{time.monotonic_ns()}"
    try:
        trial.mkdir()
    except OSError:
        return None
    try:
        argv = (sys.executable, "-I", "-S", "-c", "input()")
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as sleeper:
            try:
                works = (trial / file).exists() and cleanup.write(f"{trial}/cgroup.procs", str(sleeper.pid))
            finally:
                sleeper.kill()
    finally:
        cleanup.remove_cgroup(str(trial))
    return folder if works else None
