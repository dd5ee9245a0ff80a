"""Evaluated attempts as a leaderboard counts them: each under one policy, doubts settled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.attempt_view import AttemptView, counted, view_of
from kernelwright.agent.records.score_policy import UNKNOWN_HARDWARE, ScorePolicy

Key = TypeVar("Key")

UNCONFIRMED: Final = "the best of several measurements, not measured again"


@dataclass(slots=True)
class AttemptRows:
    """Evaluated attempts, and the number of the others."""

    evaluated: list[AttemptView]
    unevaluated: int


def read_rows(attempts: Iterable[Attempt]) -> AttemptRows:
    """Reduce attempts; one that reached no device counts for the machine of its run.

    The same candidate counts with the middle one of its evaluations, and the best of several that a run
    evaluated only once it was measured again.

    The sanitizers work on hardware where any of these attempts was sanitized.
    """
    views = [view_of(attempt) for attempt in attempts]
    evaluated = _on_machines([view for view in views if view.status is not None])
    evaluated = _on_luck(_on_doubts(counted(evaluated)))
    return AttemptRows(evaluated=evaluated, unevaluated=len(views) - len(evaluated))


def settled_policies(attempts: Iterable[Attempt]) -> dict[str, ScorePolicy]:
    """The policy of each evaluated attempt by id; one that reached no device counts for its run's machine."""
    views = [view_of(attempt) for attempt in attempts]
    return {row.attempt: row.policy for row in _on_machines([row for row in views if row.status is not None])}


def grouped(rows: Iterable[AttemptView], key: Callable[[AttemptView], Key]) -> dict[Key, list[AttemptView]]:
    """The rows by a key, those of each key in their order."""
    groups: dict[Key, list[AttemptView]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


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


def _on_luck(rows: list[AttemptView]) -> list[AttemptView]:
    runs = grouped((row for row in rows if row.low is not None), _assignment)
    limits = {
        name: max((row.speedup or 0.0 for row in measured if row.is_confirmed), default=1.0)
        for name, measured in runs.items()
        if len({row.candidate for row in measured}) > 1
    }
    return [
        replace(row, unfit=UNCONFIRMED, speedup=1.0, low=None, high=None)
        if row.low is not None
        and not row.is_confirmed
        and (row.speedup or 0.0) > max(limits.get(_assignment(row), math.inf), 1.0)
        else row
        for row in rows
    ]


def _assignment(row: AttemptView) -> tuple[object, ...]:
    return row.run, row.problem, row.backend, row.model, row.strategy, row.policy


def _places(row: AttemptView) -> tuple[tuple[object, ...], ...]:
    return (row.run, row.backend, row.policy.on(ScorePolicy())), (row.run, row.backend)
