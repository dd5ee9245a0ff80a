"""Tier 1: the bubblewrap command line of a policy, for mounts and namespaces; `init` does the rest."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from kernelwright.evaluator.sandbox.isolation.mounts import python_binds, system_binds, system_links
from kernelwright.evaluator.sandbox.isolation.sandbox_policy import SandboxPolicy
from kernelwright.evaluator.sandbox.policy import BUBBLEWRAP_S

USER_NAME: Final = "sandbox"
NOBODY: Final = "65534"


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    path: Path
    options: frozenset[str]
    """Every option its help names; old versions lack some."""


@cache
def find_bubblewrap() -> Bubblewrap | None:
    """The program on PATH; None without a working one."""
    found = shutil.which("bwrap")
    if found is None:
        return None
    try:
        answer = subprocess.run(
            (found, "--help"), capture_output=True, text=True, timeout=BUBBLEWRAP_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Bubblewrap(Path(found), frozenset(re.findall(r"--[a-z0-9-]+", answer.stdout)))


def arguments(
    program: Bubblewrap, policy: SandboxPolicy, uid: int | None, *, passwd: int, group: int, information: int
) -> list[str]:
    """All arguments before the command; two descriptors are read, and the program's pid is written to one.

    With a `uid` (under root) there is no user namespace: the program inside keeps the three capabilities it
    needs to become that user, then drops them.
    """
    words = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--hostname", USER_NAME, "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
    words += ["--cap-drop", "ALL"]
    if uid is None:
        words += ["--unshare-user"]
        if os.getuid() == 0:
            words += ["--uid", NOBODY, "--gid", NOBODY]
    else:
        words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
    for name, target in system_links():
        words += ["--symlink", target, name]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += _scratch(program, "/tmp", policy.scratch_bytes)
    words += _scratch(program, "/dev/shm", policy.scratch_bytes)
    binds = (*system_binds(devices=bool(policy.devices)), *python_binds(), *policy.binds)
    by_target = {bind.target or bind.source: bind for bind in binds}
    ordered = [by_target[target] for target in sorted(by_target, key=lambda target: target.parts)]
    words += _parents(["/etc/passwd", *(str(bind.target or bind.source) for bind in ordered)])
    for bind in ordered:
        words += [
            "--bind" if bind.writable else "--ro-bind",
            str(bind.source),
            str(bind.target or bind.source),
        ]
    for descriptor, target in ((passwd, "/etc/passwd"), (group, "/etc/group")):
        words += ["--perms", "0644", "--ro-bind-data", str(descriptor), target]
    words += ["--info-fd", str(information)]
    words += _devices(policy)
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]


def users(uid: int) -> tuple[bytes, bytes]:
    """A /etc/passwd and a /etc/group with one user."""
    passwd = f"{USER_NAME}:x:{uid}:{uid}::/tmp:/bin/sh\n"
    return passwd.encode(), f"{USER_NAME}:x:{uid}:\n".encode()


def read_child(information: int) -> int | None:
    """Read the pid of the program inside from bubblewrap; None if it failed."""
    text = b""
    while piece := os.read(information, 4096):
        text += piece
    found = re.search(rb'"child-pid": *(\d+)', text)
    return int(found[1]) if found else None


def _scratch(program: Bubblewrap, folder: str, size_bytes: int) -> list[str]:
    size = ["--size", str(size_bytes)] if "--size" in program.options else []
    return ["--perms", "1777", *size, "--tmpfs", folder]


def _parents(targets: list[str]) -> Iterator[str]:
    above = {parent for target in targets for parent in Path(target).parents}
    for folder in sorted(above - {Path("/")}, key=lambda folder: folder.parts):
        yield from ("--perms", "0755", "--dir", str(folder))


def _devices(policy: SandboxPolicy) -> Iterator[str]:
    for device in policy.devices:
        yield from ("--dev-bind", str(device), str(device))
    if policy.devices:
        yield from ("--ro-bind-try", "/proc/driver/nvidia", "/proc/driver/nvidia")
