"""Sandboxes inside containers that forbid a part of what they need; bubblewrap is the container here."""

from __future__ import annotations

import json
import os
import platform
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelwright.evaluator import SandboxTier
from kernelwright.evaluator.sandbox import probe
from kernelwright.evaluator.sandbox.isolation.landlock_tier import abi

ROOT = Path(__file__).parents[3]
PROBE = """
import json
from kernelwright.evaluator.sandbox import probe
print(json.dumps({tier.value: [found.works, *found.gaps] for tier, found in probe().tiers.items()}))
"""
NO_PROCESSES, NO_MOUNTS = "no process namespace", "no /tmp of a limited size"


@dataclass(frozen=True, slots=True)
class Tiers:
    """What works inside a container, with its gaps."""

    found: dict[str, list[object]]

    def works(self, tier: SandboxTier) -> bool:
        return bool(self.found[tier.value][0])

    def has(self, tier: SandboxTier, gap: str) -> bool:
        return any(str(one).startswith(gap) for one in self.found[tier.value][1:])


def refusal_of_mounts() -> bytes:
    """A system-call filter that answers `mount` with EPERM, as AppArmor's profile of containers does."""
    number = 165 if platform.machine() == "x86_64" else 40
    load, equal, answer = 0x20, 0x15, 0x06
    rows = ((load, 0, 0, 0), (equal, 0, 1, number), (answer, 0, 0, 0x00050001), (answer, 0, 0, 0x7FFF0000))
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


def probe_inside(folder: Path, *options: str, call_filter: bytes = b"") -> Tiers:
    """Probe in a user namespace, as a user who is not root, with a /proc of its own."""
    container = ["bwrap", "--unshare-user", "--uid", "1000", "--gid", "1000", "--unshare-pid"]
    container += ["--dev-bind", "/", "/", "--proc", "/proc", "--tmpfs", "/tmp", *options]
    container += ["--ro-bind", str(ROOT), str(ROOT)]
    (folder / "filter").write_bytes(call_filter)
    with (folder / "filter").open("rb") as file:
        if call_filter:
            container += ["--seccomp", str(file.fileno())]
        done = subprocess.run(
            [*container, sys.executable, "-c", PROBE],
            env={**os.environ, "PYTHONPATH": str(ROOT / ".ci" / "src")},
            pass_fds=(file.fileno(),),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return Tiers(json.loads(done.stdout))


@pytest.fixture(autouse=True)
def _containers() -> None:
    if not probe().tiers[SandboxTier.BUBBLEWRAP].works or not abi():
        pytest.skip("needs bubblewrap and Landlock")
    container = ["bwrap", "--unshare-user", "--uid", "1000", "--dev-bind", "/", "/", "true"]
    if subprocess.run(container, check=False).returncode:
        pytest.skip("needs user namespaces")


def test_both_tiers_work_where_user_namespaces_and_proc_are_free(tmp_path: Path) -> None:
    tiers = probe_inside(tmp_path)
    assert tiers.works(SandboxTier.BUBBLEWRAP)
    assert tiers.works(SandboxTier.CONFINED)
    assert not tiers.has(SandboxTier.CONFINED, NO_PROCESSES)


def test_a_masked_proc_costs_the_process_namespace_only(tmp_path: Path) -> None:
    tiers = probe_inside(tmp_path, "--ro-bind", "/dev/null", "/proc/interrupts")
    assert not tiers.works(SandboxTier.BUBBLEWRAP)
    assert tiers.works(SandboxTier.CONFINED)
    assert tiers.has(SandboxTier.CONFINED, NO_PROCESSES)
    assert not tiers.has(SandboxTier.CONFINED, NO_MOUNTS)


def test_where_mounts_are_refused_landlock_and_the_filter_stand(tmp_path: Path) -> None:
    tiers = probe_inside(tmp_path, call_filter=refusal_of_mounts())
    assert not tiers.works(SandboxTier.BUBBLEWRAP)
    assert tiers.works(SandboxTier.CONFINED)
    assert tiers.has(SandboxTier.CONFINED, NO_MOUNTS)


def test_without_namespaces_landlock_and_the_filter_stand(tmp_path: Path) -> None:
    tiers = probe_inside(tmp_path, "--disable-userns")
    assert not tiers.works(SandboxTier.BUBBLEWRAP)
    assert tiers.works(SandboxTier.CONFINED)
    assert tiers.has(SandboxTier.CONFINED, NO_PROCESSES)
