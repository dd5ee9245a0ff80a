"""Finds the sandbox tiers that work on this machine, by starting one of each."""

from __future__ import annotations

import os
import sys
from functools import cache
from types import MappingProxyType
from typing import Final

from kernelwright.evaluator.sandbox import policy
from kernelwright.evaluator.sandbox.isolation import landlock_tier, seccomp
from kernelwright.evaluator.sandbox.isolation.bubblewrap import find_bubblewrap
from kernelwright.evaluator.sandbox.isolation.cgroups import hierarchies
from kernelwright.evaluator.sandbox.isolation.sandbox_policy import SandboxPolicy, SandboxProbe, TierProbe
from kernelwright.evaluator.sandbox.process.launcher import Launcher
from kernelwright.evaluator.sandbox.process.sandboxed_process import SandboxedProcess
from kernelwright.evaluator.sandbox.process.startup import gives_users
from kernelwright.evaluator.schema.config import SandboxTier
from kernelwright.evaluator.schema.errors import MachineError

INSTALL: Final = "install bubblewrap (apt-get install bubblewrap)"
ALLOW: Final = "allow user namespaces, mounts and, in a container, an unmasked /proc"
LAST_RESORT: Final = "pass --sandbox none for candidates you trust"
NAMESPACE_GAPS: Final = (
    ("pid", "no process namespace: processes are found and killed by their parentage"),
    ("mount", "no /tmp of a limited size: a watchdog measures its scratch folder"),
    ("net", "no network namespace: only the system-call filter stands between it and the network"),
    ("ipc", "shares System V IPC and POSIX queues with the host"),
)
COMMON_GAPS: Final = (
    "faults of the kernel and of device drivers",
    "side channels: shared caches, memory bandwidth, clock speed",
    "reading the interpreter, its packages and /opt",
)
NONE_GAP: Final = "everything this user can reach: files, network, processes, the driver's memory"


@cache
def probe() -> SandboxProbe:
    """Try every tier, once per process."""
    with Launcher() as launcher:
        tiers = {
            SandboxTier.BUBBLEWRAP: _probe_bubblewrap(launcher),
            SandboxTier.CONFINED: _probe_confined(launcher),
            SandboxTier.NONE: TierProbe(works=True, reason="", gaps=(NONE_GAP,)),
        }
    return SandboxProbe(
        tiers=MappingProxyType(tiers),
        seccomp=seccomp.architecture() is not None,
        limits=hierarchies().limits,
        dedicated_uid=gives_users(SandboxTier.BUBBLEWRAP),
    )


def strongest(requested: SandboxTier | None) -> SandboxTier:
    """The tier to use, never `none` by itself; raises MachineError where the requested or any other fails."""
    if requested is SandboxTier.NONE:
        return requested
    tiers = probe().tiers
    if requested is not None:
        if tiers[requested].works:
            return requested
        raise MachineError(f"the {requested} sandbox does not work here: {tiers[requested].reason}")
    for tier in (SandboxTier.BUBBLEWRAP, SandboxTier.CONFINED):
        if tiers[tier].works:
            return tier
    raise MachineError(f"no sandbox works here: {INSTALL}, or {LAST_RESORT}")


def _probe_bubblewrap(launcher: Launcher) -> TierProbe:
    if find_bubblewrap() is None:
        return TierProbe(works=False, reason=f"bubblewrap is not installed: {INSTALL}, or {LAST_RESORT}")
    if seccomp.architecture() is None:
        return TierProbe(works=False, reason=f"no system-call filter for this processor; {LAST_RESORT}")
    try:
        _try(launcher, SandboxTier.BUBBLEWRAP)
    except MachineError as error:
        return TierProbe(works=False, reason=f"{error}; {ALLOW}, or {LAST_RESORT}")
    gaps = [*COMMON_GAPS, *_limit_gaps()]
    if os.geteuid() == 0 and not gives_users(SandboxTier.BUBBLEWRAP):
        gaps.insert(0, "runs as root of a user namespace: files of root that it sees count as its own")
    return TierProbe(works=True, reason="", gaps=tuple(gaps))


def _probe_confined(launcher: Launcher) -> TierProbe:
    if not landlock_tier.abi() or seccomp.architecture() is None:
        reason = f"this kernel has no Landlock, so files would lie open: {INSTALL}, or {LAST_RESORT}"
        return TierProbe(works=False, reason=reason)
    try:
        trial = _try(launcher, SandboxTier.CONFINED)
    except MachineError as error:
        return TierProbe(works=False, reason=f"{error}; {INSTALL}, or {LAST_RESORT}")
    features = trial.features
    gaps = [gap for name, gap in NAMESPACE_GAPS if name not in features]
    if os.geteuid() == 0 and trial.report.uid == "own":
        gaps.append("runs as root, without capabilities: other users cannot reach the interpreter's folder")
    gaps.append("file names and metadata outside its binds can be seen (stat), contents cannot be read")
    if landlock_tier.abi() < 6 and "pid" not in features and trial.report.uid == "own":
        gaps.append("may kill processes of the same user, its reaper included (Landlock before version 6)")
    return TierProbe(works=True, reason="", gaps=(*gaps, *COMMON_GAPS, *_limit_gaps()))


def _try(launcher: Launcher, tier: SandboxTier) -> SandboxedProcess:
    bounds = SandboxPolicy(
        tier=tier,
        memory_bytes=policy.PROBE_MEMORY_BYTES,
        processes=policy.PROBE_PROCESSES,
        file_bytes=policy.PROBE_FILE_BYTES,
        scratch_bytes=policy.PROBE_FILE_BYTES,
        environment={},
    )
    trial = launcher.start((sys.executable, "-I", "-c", "print('fine')"), bounds)
    ended = trial.wait(policy.PROBE_S) or trial.kill()
    if ended.returncode != 0 or trial.output() != "fine\n":
        raise MachineError(f"a trial program {ended.reason}: {trial.output().strip() or 'no output'}")
    return trial


def _limit_gaps() -> list[str]:
    gap = "memory beyond its limit for up to a tenth of a second: no writable cgroup, only a watchdog"
    return [gap] if hierarchies().limits == "rlimits" else []
