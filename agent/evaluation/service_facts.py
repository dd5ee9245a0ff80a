"""The facts of an evaluator and its devices, by which others decide whether it may evaluate for them.

They decide whether scores of two machines compare. Imports neither FastAPI nor torch.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from kernelwright.agent.records.provenance import versions
from kernelwright.evaluator import (
    SCORING_RULES,
    EvaluationConfig,
    Record,
    SandboxTier,
    cpu_name,
    gpus,
    probe,
    source_sha,
)


class ServedDevice(Record):
    """Devices of one kind and name that a service evaluates on."""

    kind: str
    """`cpu` or `cuda`."""
    name: str
    """Name of the processor or GPU, as scores record it."""
    at_once: int = Field(ge=1)
    """Evaluations at once, on all of them together."""
    threads: int | None = None
    """Threads of torch on a CPU, which are part of a score's policy; None on a GPU."""


class ServiceFacts(Record):
    """The evaluator behind a service, and its devices."""

    version: str
    """Of kernelwright."""
    evaluator_sha: str
    """Hash of the evaluator's source: results of others are not comparable."""
    scoring_rules: int
    torch: str
    sandbox: str
    """Tier that isolates candidates."""
    devices: tuple[ServedDevice, ...]
    takes_sources: bool = False
    """True if clients may send problems of their own."""
    problems: dict[str, str] = {}
    """Id to the SHA-256 of every problem that a submission can name."""
    trouble: tuple[str, ...] = ()
    """Reasons why it does not evaluate now, such as that it is ending."""

    @property
    def label(self) -> str:
        """Version and hardware behind the scores; those of others are not comparable."""
        named = (f"kernelwright {self.version}", f"torch {self.torch}", f"evaluator {self.evaluator_sha}")
        return ", ".join((*named, *sorted({device.name for device in self.devices})))


def sandbox_trouble(wanted: SandboxTier | None) -> tuple[str, ...]:
    """Reasons why no candidate can be run here; empty if one can."""
    usable = _usable(wanted)
    if _tier(wanted) is not None:
        return ()
    return (f"no sandbox works here: {probe().tiers[usable[0]].reason}",)


def facts_of(config: EvaluationConfig, devices: Sequence[str]) -> ServiceFacts:
    """The facts of this machine; each of `devices` as often as it evaluates at once."""
    known = {f"cuda:{gpu.index}": gpu.name for gpu in gpus()}
    names = Counter((device.partition(":")[0], known.get(device) or cpu_name()) for device in devices)
    threads = config.threads or len(os.sched_getaffinity(0))
    served = tuple(
        ServedDevice(kind=kind, name=name, at_once=count, threads=threads if kind == "cpu" else None)
        for (kind, name), count in sorted(names.items())
    )
    found = versions()
    return ServiceFacts(
        version=found.get("kernelwright", "unknown"),
        evaluator_sha=source_sha(),
        scoring_rules=SCORING_RULES,
        torch=found.get("torch", "unknown"),
        sandbox=_tier(config.sandbox) or "none works",
        devices=served,
    )


def _usable(wanted: SandboxTier | None) -> list[SandboxTier]:
    return [wanted] if wanted else [SandboxTier.BUBBLEWRAP, SandboxTier.CONFINED]


def _tier(wanted: SandboxTier | None) -> SandboxTier | None:
    tiers = probe().tiers
    return next((tier for tier in _usable(wanted) if tiers[tier].works), None)
