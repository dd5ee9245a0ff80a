"""Events of a run, sent to its observer as they happen. None is stored; the log is the record."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from kernelwright.agent.providers.rate_limits import Retrying
from kernelwright.agent.records.attempt_log import Attempt, AttemptKey, RunEnd
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import Usage
from kernelwright.evaluator import Record, Stage, Status


@dataclass(frozen=True, slots=True)
class RunOpened:
    """A run begins or resumes."""

    run_id: str
    assignments: int
    """Problem, backend and model combinations."""
    finished: int
    """Assignments that an earlier process finished."""
    attempts_planned: int
    """Most attempts the run makes, ignoring budgets."""
    resumed_attempts: int
    """Replies that the log already holds."""
    judges: bool = True
    """False when replies are left for a later process to evaluate."""


@dataclass(frozen=True, slots=True)
class AssignmentStarted:
    """Work on one problem begins."""

    problem: str
    backend: str
    model: str
    strategy: str


@dataclass(frozen=True, slots=True)
class AssignmentFinished:
    """Work on one problem ended."""

    problem: str
    backend: str
    model: str
    strategy: str
    attempts: int
    passed: int
    speedup: float | None
    """Of its best kernel."""
    complete: bool
    """False when something is left for a resume."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A model is being asked."""

    of: AttemptKey


@dataclass(frozen=True, slots=True)
class Replied:
    """A reply arrived and is recorded."""

    of: AttemptKey
    extraction: str
    """`CODE`, `NO_CODE` or `TRUNCATED`."""
    rule: str
    seconds: float
    usage: Usage
    cost_usd: float | None
    cached: bool
    """True when it came from the completion cache."""
    recorded: bool
    """True when an earlier process had recorded it."""

    @classmethod
    def to(cls, attempt: Attempt, *, recorded: bool) -> Replied:
        """Build the event of an attempt's reply."""
        line = attempt.completion
        return cls(
            of=line.key,
            extraction=line.outcome,
            rule=line.rule,
            seconds=line.seconds,
            usage=line.usage,
            cost_usd=line.cost_usd,
            cached=line.cached,
            recorded=recorded,
        )


@dataclass(frozen=True, slots=True)
class Waiting:
    """Bulk jobs were polled; their replies take hours."""

    requests: int
    answered: int
    failed: int
    statuses: tuple[str, ...]
    """The endpoint's statuses of the batches under way."""
    trouble: str = ""
    """Error of the last poll, if it failed."""


@dataclass(frozen=True, slots=True)
class Judging:
    """An evaluation begins."""

    of: AttemptKey


@dataclass(frozen=True, slots=True)
class EvaluationWaits:
    """An evaluation waits in the queue of a judge elsewhere."""

    of: AttemptKey
    ahead: int | None
    """Evaluations that come first; None while it waits for a place in the queue."""


@dataclass(frozen=True, slots=True)
class StageEntered:
    """An evaluation enters its next stage."""

    of: AttemptKey
    stage: Stage


@dataclass(frozen=True, slots=True)
class Judged:
    """An evaluation is recorded."""

    of: AttemptKey
    status: Status
    speedup: float | None
    detail: str
    reused: bool
    """True when the same candidate had been evaluated before in this run."""
    recorded: bool
    """True when an earlier process had recorded it."""
    confirms: bool = False
    """True for a second evaluation of the best of several attempts."""
    contended: bool = False
    """True where it was timed beside other work, so that no speedup counts."""


@dataclass(frozen=True, slots=True)
class ProviderTrouble:
    """No reply; nothing is scored."""

    of: AttemptKey
    message: str
    for_good: bool = False
    """True when its model is not asked again."""


@dataclass(frozen=True, slots=True)
class EvaluatorTrouble:
    """The evaluator or its machine failed; nothing is scored."""

    of: AttemptKey
    message: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A problem cannot be evaluated with these settings."""

    problem: str
    message: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A kernel was saved to `generated/`."""

    of: AttemptKey
    kernel: str
    folder: str
    speedup: float | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A candidate that passed is not saved."""

    of: AttemptKey
    message: str


@dataclass(frozen=True, slots=True)
class BudgetReached:
    """No further request is sent; replies are still evaluated."""

    what: str


@dataclass(frozen=True, slots=True)
class Interrupting:
    """The user asked to stop; work in flight is finished."""

    replies: int = 0
    evaluations: int = 0
    kernels: int = 0
    """Kernels that are being built once more, or saved."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The outcome of a run, counted over its whole log."""

    run_id: str
    end: RunEnd
    reason: str
    """One line for people; empty when the run is complete."""
    attempts: int = 0
    evaluated: int = 0
    passed: int = 0
    kept: int = 0
    provider_failures: int = 0
    """Of this process."""
    evaluator_failures: int = 0
    """Of this process."""
    to_come: int = 0
    """Replies still pending in batches."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Problem id to the reason it was skipped."""
    cost_usd: Decimal = Decimal(0)
    """Cost of the replies whose price is known."""
    unpriced: int = 0
    """Replies of unknown cost."""
    budget: Budget = field(default_factory=Budget)
    """The run's limits, those set by a resume included."""
    remembered: int = 0
    """Replies that came from the completion cache."""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    """Wall time, earlier processes included."""
    best: dict[str, float] = field(default_factory=dict)
    """Problem id to its best speedup."""

    @property
    def unevaluated(self) -> int:
        """Replies that wait for a resume to be evaluated."""
        return self.attempts - self.evaluated

    @property
    def exit_code(self) -> int:
        """0 something passed, 1 nothing did, 2 no problem was usable, 3 something failed, 130 interrupted."""
        match self.end:
            case RunEnd.INTERRUPTED:
                return 130
            case RunEnd.BROKEN:
                return 3
            case RunEnd.ASKED:
                return 0
            case RunEnd.INCOMPLETE:
                return 0 if self.passed else 3
            case RunEnd.COMPLETE | RunEnd.BUDGET:
                failed = 2 if self.skipped and not self.evaluated else 1
                return 0 if self.passed else failed


@dataclass(frozen=True, slots=True)
class RunClosed:
    """The run stopped."""

    summary: RunSummary


Event: TypeAlias = (
    RunOpened
    | AssignmentStarted
    | AssignmentFinished
    | Asking
    | Replied
    | Waiting
    | Judging
    | EvaluationWaits
    | StageEntered
    | Judged
    | Retrying
    | ProviderTrouble
    | EvaluatorTrouble
    | Skipped
    | Kept
    | Refused
    | BudgetReached
    | Interrupting
    | RunClosed
)


def event_line(event: Event) -> str:
    """An event as one JSON object: its name under `event`, the time now under `at` (ISO 8601, UTC)."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"event": type(event).__name__, "at": at, **_plain(event)})


def _plain(value: object) -> Any:  # Any: whatever JSON can hold
    if isinstance(value, AttemptKey):
        return {"attempt": value.attempt, **value.model_dump(exclude={"run"})}
    if isinstance(value, Record):
        return {name: _plain(held) for name, held in value}
    if isinstance(value, Decimal):
        return float(value)
    if dataclasses.is_dataclass(value):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    return value
