"""A launcher, the tiers that work on this machine, and a way to run a little program inside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kernelwright.evaluator import SandboxTier
from kernelwright.evaluator.sandbox import ExitReport, Launcher, SandboxedProcess, SandboxPolicy, probe

MIB = 1 << 20


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


@pytest.fixture(params=[SandboxTier.BUBBLEWRAP, SandboxTier.CONFINED], ids=str)
def tier(request: pytest.FixtureRequest) -> SandboxTier:
    """Each tier that protects anything."""
    found = probe().tiers[request.param]
    if not found.works:
        pytest.skip(found.reason)
    return SandboxTier(request.param)


@pytest.fixture
def policy(tier: SandboxTier) -> SandboxPolicy:
    return SandboxPolicy(
        tier=tier,
        memory_bytes=256 * MIB,
        processes=24,
        file_bytes=64 * MIB,
        scratch_bytes=32 * MIB,
        environment={"PATH": "/usr/bin:/bin", "GREETING": "hello"},
    )


@dataclass
class Inside:
    """Starts Python programs under the policy."""

    launcher: Launcher
    policy: SandboxPolicy
    preload: tuple[str, ...] = ()

    def start(
        self, code: str, *arguments: object, fds: tuple[int, ...] = (), **changes: Any
    ) -> SandboxedProcess:
        argv = (sys.executable, "-I", "-S", "-c", code, *map(str, arguments))
        return self.launcher.start(argv, replace(self.policy, **changes), fds=fds, preload=self.preload)

    def run(self, code: str, *arguments: object, **changes: Any) -> tuple[ExitReport, str]:
        running = self.start(code, *arguments, **changes)
        ended = running.wait(60)
        report = ended or running.kill()
        assert ended, f"did not end: {running.output()}"
        return report, running.output()


@pytest.fixture(params=[(), ("fractions",)], ids=["executed", "forked"])
def inside(launcher: Launcher, policy: SandboxPolicy, request: pytest.FixtureRequest) -> Inside:
    """Programs start either way, and nothing may tell which."""
    return Inside(launcher, policy, request.param)
