"""What clients are told: the bodies of every answer that is not a refusal."""

from __future__ import annotations

import json

from kernelwright.agent.records.strict_json import plain
from kernelwright.agent.service.evaluation_queue import Standing
from kernelwright.agent.service.store import State
from kernelwright.evaluator import Evaluation, Problem, Record, Stage


class Failure(Record):
    """Why nothing could be judged; never a score."""

    kind: str
    """`machine`, `problem`, `config` or `evaluator`."""
    message: str


class EvaluationAnswer(Record):
    """An evaluation as it stands."""

    id: str
    """Content address: the same content is the same evaluation."""
    state: State
    round: int
    """How often this content was put into the queue."""
    problem: str
    backend: str
    accepted_at: str
    """UTC, ISO 8601, as all times here."""
    started_at: str | None
    ended_at: str | None
    ahead: int | None
    """Evaluations that come first, while it is queued."""
    stage: Stage | None
    """How far it got, while it runs."""
    failure: Failure | None
    """Only of a failed one; submit it again to have it tried again."""
    evaluation: Evaluation | None
    """Only of a finished one. Numbers that JSON lacks are the strings `NaN`, `Infinity` and `-Infinity`."""


class ProblemAnswer(Record):
    """One problem of the service."""

    id: str
    sha: str
    """SHA-256 of its text."""
    shapes: dict[str, dict[str, object]]
    """Named overrides of its constants, for `config.shapes`."""


class ProblemsAnswer(Record):
    """Every problem of the service."""

    problems: tuple[ProblemAnswer, ...]


class HealthAnswer(Record):
    """Whether the service answers, and whether it judges."""

    live: bool
    ready: bool
    trouble: tuple[str, ...]
    """Why it is not ready."""
    workers: int
    """Threads that judge."""
    queued: int
    running: int


def evaluation_text(standing: Standing) -> str:
    """An `EvaluationAnswer` as JSON text; the verdict is passed on as it was written down."""
    entry = standing.entry
    head = {
        "id": entry.id,
        "state": entry.state.value,
        "round": entry.round,
        "problem": entry.problem,
        "backend": entry.backend,
        "accepted_at": entry.accepted_at,
        "started_at": entry.started_at,
        "ended_at": entry.ended_at,
        "ahead": standing.ahead,
        "stage": standing.stage,
        "failure": {"kind": entry.failure_kind, "message": plain(entry.failure)} if entry.failure else None,
    }
    return f'{json.dumps(head)[:-1]}, "evaluation": {entry.verdict or "null"}}}'


def problems_text(problems: list[Problem]) -> str:
    """A `ProblemsAnswer` as JSON text."""
    listed = [{"id": problem.id, "sha": problem.sha, "shapes": plain(problem.shapes)} for problem in problems]
    return json.dumps({"problems": listed}, allow_nan=False)
