"""Makes the plan for `init`: limits, user, filters and the command, as plain values."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.evaluator.sandbox.isolation import landlock_tier, seccomp
from kernelwright.evaluator.sandbox.isolation.cgroups import ControlGroup
from kernelwright.evaluator.sandbox.isolation.sandbox_policy import SandboxPolicy
from kernelwright.evaluator.sandbox.policy import EXTRA_TASKS, OPEN_FILES
from kernelwright.evaluator.schema.config import SandboxTier


@dataclass(frozen=True, slots=True)
class StartRequest:
    argv: Sequence[str]
    policy: SandboxPolicy
    fds: tuple[int, ...]
    name: str
    """Unique on this machine; `cleanup` knows the owner by it."""
    output: int
    """Descriptor to print to."""
    preload: tuple[str, ...] = ()
    """Modules that the program, `python -c`, finds imported."""


@dataclass(frozen=True, slots=True)
class SandboxFeatures:
    namespaces: frozenset[str]
    """Some of `user`, `mount`, `pid`, `net`, `ipc`, `uts`, `cgroup`."""
    uid: int | None
    """The sandbox's own user, if it has one."""
    scratch: Path | None
    """A folder in place of /tmp, where that cannot be private."""
    group: ControlGroup
    forked: bool = False
    """A fork server starts the program."""


def plan(request: StartRequest, features: SandboxFeatures) -> Mapping[str, object]:
    policy, environment = request.policy, dict(request.policy.environment)
    if features.scratch:
        environment = {
            name: landlock_tier.relocated(value, features.scratch) for name, value in environment.items()
        }
    confined = policy.tier is SandboxTier.CONFINED
    return {
        "argv": [os.fsencode(word) for word in request.argv],
        "environment": {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
        "directory": str(features.scratch or "/tmp"),
        "fds": list(request.fds),
        "forked": features.forked,
        "rlimits": _rlimits(policy, features),
        "niceness": policy.niceness,
        "uid": features.uid,
        "unprivileged": policy.tier is not SandboxTier.NONE,
        "landlock": landlock_tier.restriction(policy, features.namespaces, features.scratch)
        if confined
        else None,
        **(landlock_tier.mounts(policy, features.uid) if confined else {}),
        **_filter(policy, features),
    }


def has_filter(tier: SandboxTier) -> bool:
    """True where programs of a tier run under a system-call filter on this machine."""
    return tier is not SandboxTier.NONE and seccomp.architecture() is not None


def _filter(policy: SandboxPolicy, features: SandboxFeatures) -> Mapping[str, object]:
    machine = seccomp.architecture()
    if machine is None or not has_filter(policy.tier):
        return {"seccomp": None}
    is_isolated = "net" in features.namespaces
    if is_isolated and policy.nested:
        sockets = seccomp.Sockets.INTERNET
    else:
        sockets = seccomp.Sockets.UNIX if is_isolated or policy.devices else seccomp.Sockets.PAIRS
    program = seccomp.program(machine, sockets=sockets, nested=policy.nested, timers=features.group.freezes)
    return {"seccomp": program, "seccomp_number": machine.load_filter}


def _rlimits(policy: SandboxPolicy, features: SandboxFeatures) -> list[tuple[int, int, int]]:
    """Resource limits; address space is never limited, because CUDA reserves far more than it uses."""
    # One byte, because none would not keep a core from a pipe: a host's helper would write all of it to disk.
    limits = {resource.RLIMIT_CORE: 1, resource.RLIMIT_FSIZE: policy.file_bytes}
    limits[resource.RLIMIT_NOFILE] = OPEN_FILES
    if not features.group.bounds_memory and not policy.devices and not policy.nested:
        limits[resource.RLIMIT_DATA] = policy.memory_bytes
    if features.uid is not None or ("user" in features.namespaces and _counts_by_namespace()):
        limits[resource.RLIMIT_NPROC] = policy.processes + EXTRA_TASKS
    elif not features.group.bounds_tasks:
        limits[resource.RLIMIT_NPROC] = policy.processes + EXTRA_TASKS + _own_tasks()
    rows = [(kind, wanted, wanted) for kind, wanted in limits.items()]
    if policy.cpu_s is not None:
        seconds = max(1, round(policy.cpu_s))
        rows.append((resource.RLIMIT_CPU, seconds, seconds + 1))
    return [_within_hard_limit(row) for row in rows]


def _within_hard_limit(row: tuple[int, int, int]) -> tuple[int, int, int]:
    kind, soft, hard = row
    allowed = resource.getrlimit(kind)[1]
    if allowed == resource.RLIM_INFINITY:
        return row
    return kind, min(soft, allowed), min(hard, allowed)


def _counts_by_namespace() -> bool:
    """True since Linux 5.14, where a user namespace has a count of tasks of its own."""
    major, minor, *_ = os.uname().release.split(".")
    return (int(major), int("".join(character for character in minor if character.isdigit()))) >= (5, 14)


def _own_tasks() -> int:
    """Tasks of this user, which count against the same limit without a user namespace."""
    uid, count = os.getuid(), 0
    for name in os.listdir("/proc"):  # noqa: PTH208  # five times faster than iterdir
        if name.isdigit():
            try:
                folder = f"/proc/{name}"
                count += len(os.listdir(f"{folder}/task")) if os.stat(folder).st_uid == uid else 0  # noqa: PTH116, PTH208
            except OSError:
                continue
    return count
