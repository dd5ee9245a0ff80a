"""Evaluated attempts as a leaderboard counts them: each under one policy, doubts settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.attempt_view import AttemptView, view_of
from kernelwright.agent.records.score_policy import UNKNOWN_HARDWARE, ScorePolicy


@dataclass(slots=True)
class AttemptRows:
    """Evaluated attempts, and the number of the others."""

    evaluated: list[AttemptView]
    unevaluated: int


def read_rows(attempts: Iterable[Attempt]) -> AttemptRows:
    """Reduce attempts; one that reached no device counts for the machine of its run.

    The sanitizers work on hardware where any of these attempts was sanitized.
    """
    views = [view_of(attempt) for attempt in attempts]
    evaluated = _on_doubts(_on_machines([view for view in views if view.status is not None]))
    return AttemptRows(evaluated=evaluated, unevaluated=len(views) - len(evaluated))


def of_track(rows: Iterable[AttemptView], track: str) -> list[AttemptView]:
    """The rows with a pass on any other track counted as a failure."""
    return [row if row.speedup is None or row.track == track else replace(row, speedup=None) for row in rows]


def _on_machines(rows: list[AttemptView]) -> list[AttemptView]:
    used: dict[tuple[object, ...], Counter[ScorePolicy]] = {}
    for row in rows:
        if row.policy.hardware is not None:
            for place in _places(row):
                used.setdefault(place, Counter())[row.policy] += 1
    known: dict[tuple[object, ...], ScorePolicy] = {}

    def settled(row: AttemptView) -> ScorePolicy:
        place = (row.run, row.backend, row.policy)
        if place not in known:
            counts = next((used[place] for place in _places(row) if place in used), None)
            machine = counts.most_common(1)[0][0] if counts else ScorePolicy(hardware=UNKNOWN_HARDWARE)
            known[place] = row.policy.on(machine)
        return known[place]

    return [row if row.policy.hardware is not None else replace(row, policy=settled(row)) for row in rows]


def _on_doubts(rows: list[AttemptView]) -> list[AttemptView]:
    tools = {row.policy.hardware for row in rows if row.sanitized}
    # A candidate with library kernels only built nothing that tools could check.
    return [
        replace(row, is_doubted=True)
        if row.passed and not row.sanitized and row.track != "library" and row.policy.hardware in tools
        else row
        for row in rows
    ]


def _places(row: AttemptView) -> tuple[tuple[object, ...], ...]:
    return (row.run, row.backend, row.policy.on(ScorePolicy())), (row.run, row.backend)
