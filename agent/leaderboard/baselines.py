"""The baselines that a run timed; speedups against different baselines are not comparable."""

from __future__ import annotations

import json

from kernelwright.agent.archive import Archive, ArchiveError


def baselines_of(archive: Archive, run: str) -> tuple[str, ...]:
    """The baselines of a run's plan, sorted; empty when it does not say, or is damaged."""
    try:
        plan = json.loads(archive.text(run, archive.started(run).plan))
    except ArchiveError:
        return ()
    config = plan.get("config") if isinstance(plan, dict) else None
    named = config.get("baselines") if isinstance(config, dict) else None
    return tuple(sorted(map(str, named))) if isinstance(named, list) else ()


def share_baselines(archive: Archive, before: str, after: str) -> bool:
    """Return whether two runs surely timed the same baselines."""
    then, now = baselines_of(archive, before), baselines_of(archive, after)
    return bool(then) and then == now
