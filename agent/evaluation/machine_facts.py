"""The facts of this machine that decide whether its scores compare with others. Imports no FastAPI."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from kernelwright.agent.evaluation.service_facts import ServedDevice, ServiceFacts
from kernelwright.agent.records.provenance import versions
from kernelwright.evaluator import (
    SCORING_RULES,
    EvaluationConfig,
    SandboxTier,
    cpu_name,
    gpus,
    probe,
    source_sha,
)


def sandbox_trouble(wanted: SandboxTier | None) -> tuple[str, ...]:
    """Reasons why no candidate can be run here; empty if one can."""
    usable = _usable(wanted)
    if _tier(wanted) is not None:
        return ()
    return (f"no sandbox works here: {probe().tiers[usable[0]].reason}",)


def facts_of(config: EvaluationConfig, devices: Sequence[str]) -> ServiceFacts:
    """The facts of this machine; each of `devices` as often as it evaluates at once."""
    names = Counter((device.partition(":")[0], _name(device)) for device in devices)
    served = tuple(
        ServedDevice(kind=kind, name=name, at_once=count, threads=_threads(config) if kind == "cpu" else None)
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


def _threads(config: EvaluationConfig) -> int:
    return config.threads or len(os.sched_getaffinity(0))


def _name(device: str) -> str:
    known = {f"cuda:{gpu.index}": gpu.name for gpu in gpus()}
    return known.get(device) or cpu_name()


def evaluator_label(devices: Sequence[str]) -> str:
    """Version and hardware behind the scores; those of others are not comparable."""
    hardware = sorted(set(map(_name, devices)))
    found = versions()
    named = [f"{name} {found.get(name, 'unknown')}" for name in ("kernelwright", "torch")]
    return ", ".join([*named, f"evaluator {source_sha()}", *hardware])
