"""Tier 2, without bubblewrap: the paths Landlock allows, and mounts that hide others where possible.

Numbers are those of linux/landlock.h; `init` applies the rules.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from kernelwright.evaluator.sandbox.isolation.mounts import python_binds, system_binds
from kernelwright.evaluator.sandbox.isolation.sandbox_policy import Bind, SandboxPolicy
from kernelwright.evaluator.schema.errors import ConfigError, MachineError

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
PROCESS = READ_FILE | WRITE_FILE | READ_DIR | TRUNCATE
"""CUDA does not start unless it can name its threads in /proc."""
DEVICE = READ_FILE | WRITE_FILE | READ_DIR | TRUNCATE | IOCTL_DEVICE
EVERYTHING = (1 << 16) - 1
WRITE = EVERYTHING & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEVICE)
FILE_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file rights each version knows."""
TCP = 1 | 2
"""Bind and connect, version 4."""
SCOPES = 1 | 2
"""Abstract UNIX sockets and signals to the outside, version 6."""

SCRATCH: Final = ("/tmp", "/dev/shm")
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SHARED_PROC: Final = tuple(
    f"/proc/{name}"
    for name in (
        "self", "cpuinfo", "meminfo", "stat", "version", "loadavg", "filesystems", "modules", "devices",
        "sys/kernel", "sys/vm", "driver/nvidia",
    )
)  # fmt: skip
"""Readable paths of a /proc that shows the host's processes."""


@cache
def abi() -> int:
    """This kernel's Landlock version; 0 without Landlock."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(444, None, 0, 1)))


def check_targets(binds: tuple[Bind, ...]) -> None:
    """Refuse binds that show a path elsewhere, which only bubblewrap can: raises ConfigError."""
    for bind in binds:
        if bind.target is not None and bind.target.resolve() != bind.source.resolve():
            raise ConfigError(f"only the bubblewrap sandbox can show {bind.source} at {bind.target}")


def restriction(
    policy: SandboxPolicy, features: frozenset[str], scratch: Path | None
) -> Mapping[str, object] | None:
    """A ruleset for this kernel's Landlock; None without it."""
    version = abi()
    if not version:
        return None
    if "mount" not in features:
        _check_nesting(policy.binds)
    handled = (1 << FILE_RIGHTS_BY_ABI[min(version, 5)]) - 1
    attribute = struct.pack("=Q", handled)
    if version >= 4:
        attribute += struct.pack("=Q", 0 if "net" in features else TCP)
    if version >= 6:
        attribute += struct.pack("=Q", SCOPES)
    rights = dict(_rights(policy, features, scratch))
    return {"attribute": attribute, "rules": [(path, held & handled) for path, held in rights.items()]}


def mounts(policy: SandboxPolicy, uid: int | None) -> Mapping[str, object]:
    """Folders to cover with empty ones, and paths to mount again: binds, and paths that a cover hides."""
    options = dict.fromkeys(SCRATCH, f"size={policy.scratch_bytes},mode=1777")
    options["/run"] = "size=64k,mode=755"
    binds = visible(policy)
    if uid is not None:
        closed = {folder for bind in binds if (folder := closed_ancestor(bind.source))}
        apart = {str(folder) for folder in closed if not any(map(folder.is_relative_to, options))}
        options |= dict.fromkeys(sorted(apart), "size=64k,mode=755")
    shown: dict[Path, bool] = {}
    for bind in binds:
        source = bind.source.resolve()
        if bind in policy.binds or any(source.is_relative_to(folder) for folder in options):
            shown[source] = shown.get(source, False) or bind.writable
    rows = [(str(path), shown[path]) for path in sorted(shown, key=lambda path: path.parts)]
    return {"covers": list(options.items()), "visible": rows}


def visible(policy: SandboxPolicy) -> tuple[Bind, ...]:
    """All binds of a policy and of the allow-list."""
    return (*system_binds(devices=bool(policy.devices)), *python_binds(), *policy.binds)


def closed_ancestor(path: Path) -> Path | None:
    """The outermost folder above a path that other users may not enter."""
    above = reversed(path.resolve().parents)
    return next((folder for folder in above if not folder.stat().st_mode & 0o001), None)


def relocated(text: str, scratch: Path) -> str:
    """Replace /tmp by the scratch folder, for a sandbox without a /tmp of its own."""
    if text == "/tmp" or text.startswith("/tmp/"):
        return f"{scratch}{text.removeprefix('/tmp')}"
    return text


def _check_nesting(binds: tuple[Bind, ...]) -> None:
    """Refuse read-only paths inside a writable folder, which Landlock cannot express."""
    for outer in binds:
        for inner in binds:
            if outer.writable and not inner.writable and inner.source.is_relative_to(outer.source):
                raise MachineError(
                    f"{inner.source} cannot be read-only inside writable {outer.source} without a mount "
                    "namespace: install bubblewrap"
                )


def _rights(
    policy: SandboxPolicy, features: frozenset[str], scratch: Path | None
) -> Iterator[tuple[str, int]]:
    for bind in visible(policy):
        yield str(bind.source), READ | (WRITE if bind.writable else 0)
    private_proc = {"pid", "mount"} <= features
    for path in ("/proc",) if private_proc else SHARED_PROC:
        own = private_proc or path == "/proc/self"
        yield path, PROCESS if own else READ_FILE | READ_DIR
    for folder in SCRATCH if "mount" in features else (os.fspath(scratch),) if scratch else ():
        yield folder, WRITE
    for device in (*DEVICES, *policy.devices):
        yield str(device), DEVICE
