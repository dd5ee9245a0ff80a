"""The few fields of an attempt that a leaderboard keeps, so that 100,000 fit in memory."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.evaluator import Dtype, Math, Passes, Status

CONTRACT_RULES: Final = frozenset({"contract", "empty", "size", "syntax"})
"""Screening rules that reject broken code; every other rule rejects a cheat."""

UNKNOWN_HARDWARE: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Policy:
    """The terms of a score; scores are compared within one policy and hardware only."""

    math: Math
    dtype: Dtype
    shapes: str | None
    passes: Passes = Passes.FORWARD

    def __str__(self) -> str:
        parts = [self.math.value]
        parts += [f"as {self.dtype}"] if self.dtype is not Dtype.AS_IS else []
        parts += [f"shapes {self.shapes}"] if self.shapes else []
        parts += ["with gradients"] if self.passes is Passes.FORWARD_BACKWARD else []
        return ", ".join(parts)


@dataclass(slots=True)
class AttemptRow:
    """One evaluated attempt."""

    run: str
    problem: str
    problem_sha: str
    backend: str
    model: str
    strategy: str
    sample: int
    turn: int
    attempt: str
    status: Status
    policy: Policy
    hardware: str | None
    speedup: float | None
    low: float | None
    high: float | None
    against: str | None
    """The baseline behind the speedup."""
    track: str | None
    speed_of_light: float | None
    is_cheat: bool
    is_sanitized: bool
    is_doubted: bool
    """Correct, but not sanitized on hardware where the tools work."""
    is_contended: bool
    """Something else slowed the baseline down."""
    flaws: tuple[str, ...]
    """Flaws of the problem that vetting found."""
    tokens: int
    cost_usd: float | None
    reply: int
    """Hash of the reply, as it arrived."""
    is_remembered: bool
    """The reply came from the completion cache."""


@dataclass(slots=True)
class AttemptRows:
    """Evaluated attempts, and the number of the others."""

    judged: list[AttemptRow]
    unjudged: int


def read_rows(attempts: Iterable[Attempt]) -> AttemptRows:
    """Reduce attempts to rows; one that reached no device counts for the hardware of its run.

    The tools work on hardware where any of these attempts was sanitized.
    """
    rows = AttemptRows(judged=[], unjudged=0)
    policies: dict[Policy, Policy] = {}
    for attempt in attempts:
        if attempt.evaluation is None:
            rows.unjudged += 1
        else:
            rows.judged.append(_row(attempt, policies))
    _settle_hardware(rows.judged)
    _settle_doubts(rows.judged)
    return rows


def of_track(rows: Iterable[AttemptRow], track: str) -> list[AttemptRow]:
    """The rows with a pass on any other track counted as a failure."""
    return [row if row.speedup is None or row.track == track else replace(row, speedup=None) for row in rows]


def _row(attempt: Attempt, policies: dict[Policy, Policy]) -> AttemptRow:
    key, line = attempt.key, attempt.completion
    judged = attempt.evaluation
    if judged is None:
        raise ValueError(f"attempt {attempt.id} was not evaluated")
    score = judged.score
    policy = Policy(math=score.math, dtype=score.dtype, shapes=score.shapes, passes=score.passes)
    return AttemptRow(
        run=sys.intern(key.run),
        problem=sys.intern(key.problem),
        problem_sha=sys.intern(score.problem_sha),
        backend=sys.intern(key.backend),
        model=sys.intern(key.model),
        strategy=sys.intern(key.strategy),
        sample=key.sample,
        turn=key.turn,
        attempt=attempt.id,
        status=score.status,
        policy=policies.setdefault(policy, policy),
        hardware=sys.intern(score.hardware) if score.hardware else None,
        speedup=_speed(score.status, score.speedup),
        low=score.low,
        high=score.high,
        against=sys.intern(score.against) if score.against else None,
        track=sys.intern(score.track) if score.track else None,
        speed_of_light=score.speed_of_light,
        is_cheat=is_cheat(score.status, score.fatal),
        is_sanitized=score.sanitized,
        is_doubted=False,
        is_contended=score.contended,
        flaws=score.flaws,
        tokens=line.usage.prompt_tokens + line.usage.completion_tokens,
        cost_usd=line.cost_usd,
        reply=hash((line.response_id, line.completed_at, line.reply)),
        is_remembered=line.cached,
    )


def is_cheat(status: Status, fatal: tuple[str, ...]) -> bool:
    """Return whether a candidate was refused as a cheat, not as wrong or broken."""
    return status is Status.TAMPERED or (status is Status.REJECTED and not CONTRACT_RULES.issuperset(fatal))


def _speed(status: Status, speedup: float | None) -> float | None:
    """None for a failure; a correct kernel that was not timed counts as 1.0."""
    if status is not Status.PASSED:
        return None
    return 1.0 if speedup is None else speedup


def _settle_hardware(rows: list[AttemptRow]) -> None:
    used: dict[tuple[object, ...], Counter[str]] = {}
    for row in rows:
        if row.hardware is not None:
            for place in _places(row):
                used.setdefault(place, Counter())[row.hardware] += 1
    for row in rows:
        if row.hardware is None:
            counts = next((used[place] for place in _places(row) if place in used), None)
            row.hardware = counts.most_common(1)[0][0] if counts else UNKNOWN_HARDWARE


def _settle_doubts(rows: list[AttemptRow]) -> None:
    tools = {row.hardware for row in rows if row.is_sanitized}
    for row in rows:
        # A candidate with library kernels only built nothing that tools could check.
        row.is_doubted = (
            row.status is Status.PASSED
            and not row.is_sanitized
            and row.track != "library"
            and row.hardware in tools
        )


def _places(row: AttemptRow) -> tuple[tuple[object, ...], ...]:
    return (row.run, row.backend, row.policy), (row.run, row.backend)
