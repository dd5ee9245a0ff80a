"""The data a caller gives to a sandbox and receives from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelwright.evaluator.schema.config import SandboxTier


@dataclass(frozen=True, slots=True)
class Bind:
    """A host path that a sandbox may see.

    Only bubblewrap can show a path elsewhere: the other tiers refuse a `target` that is not the same file.
    Where the sandbox has a uid of its own (under root) a writable source is given to that uid, recursively,
    and a read-only one must be readable by others.
    """

    source: Path
    target: Path | None = None
    """Path inside the sandbox; None keeps its own."""
    writable: bool = False


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """Paths and resources of one sandboxed program; the system allow-list is added to `binds`."""

    tier: SandboxTier
    memory_bytes: int
    """Resident memory of the whole tree, its scratch files included where a cgroup counts them."""
    processes: int
    """Tasks (processes and threads) of the whole tree."""
    file_bytes: int
    """Size of one file."""
    scratch_bytes: int
    """Size of /tmp, and again of /dev/shm."""
    environment: Mapping[str, str]
    """The complete environment: nothing is inherited."""
    binds: tuple[Bind, ...] = ()
    devices: tuple[Path, ...] = ()
    """Device nodes to pass; when there are any, /sys and /proc/driver/nvidia are visible too."""
    cpu_s: float | None = None
    """CPU time of one process."""
    niceness: int = 0
    """Niceness of its processes, 0 to 19."""
    nested: bool = False
    """Allow ptrace among the sandbox's own processes, and reserving far more memory than is used: for
    debuggers, compute-sanitizer and AddressSanitizer."""


@dataclass(frozen=True, slots=True)
class ExitReport:
    returncode: int | None
    """Exit status; None when a signal ended it."""
    signal: int | None
    """The signal that ended it."""
    out_of_memory: bool
    """Its memory limit ended it; `reason` tells a counted kill from a guess."""
    reason: str
    """One line for people."""


@dataclass(frozen=True, slots=True)
class TierProbe:
    works: bool
    reason: str
    """Why it does not, with the way out; empty when it works."""
    gaps: tuple[str, ...] = ()
    """Things the tier cannot prevent on this machine."""


@dataclass(frozen=True, slots=True)
class SandboxProbe:
    """The sandboxing features of this machine."""

    tiers: Mapping[SandboxTier, TierProbe]
    seccomp: bool
    limits: str
    """Mechanism that limits memory and tasks: `cgroup v2`, `cgroup v1` or `rlimits`."""
    dedicated_uid: bool
    """True where each sandbox gets a uid of its own (under root)."""
