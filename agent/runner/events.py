"""Events of a run, sent to its observer as they happen. None is stored; the log is the record."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, TypeAlias

from pydantic import PlainSerializer

from kernelwright.agent.providers.rate_limits import Retrying
from kernelwright.agent.records.attempt_log import Attempt, AttemptKey, RunEnd
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import Usage
from kernelwright.evaluator import Record, Stage, Status


class RunEvent(Record):
    """Something that happened in a run."""


class AttemptEvent(RunEvent):
    """Something that happened to one attempt."""

    of: Annotated[
        AttemptKey,
        PlainSerializer(lambda key: {"attempt": key.attempt, **key.model_dump(exclude={"run"})}),
    ]


class RunOpened(RunEvent):
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


class AssignmentEvent(RunEvent):
    """Something that happened to the work on one problem."""

    problem: str
    backend: str
    model: str
    strategy: str


class AssignmentStarted(AssignmentEvent):
    """Work on one problem begins."""


class AssignmentFinished(AssignmentEvent):
    """Work on one problem ended."""

    attempts: int
    passed: int
    speedup: float | None
    """Of its best kernel."""
    complete: bool
    """False when something is left for a resume."""


class Asking(AttemptEvent):
    """A model is being asked."""


class Replied(AttemptEvent):
    """A reply arrived and is recorded."""

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


class Waiting(RunEvent):
    """Bulk jobs were polled; their replies take hours."""

    requests: int
    answered: int
    failed: int
    statuses: tuple[str, ...]
    """The endpoint's statuses of the batches under way."""
    trouble: str = ""
    """Error of the last poll, if it failed."""


class Judging(AttemptEvent):
    """An evaluation begins."""


class EvaluationWaits(AttemptEvent):
    """An evaluation waits in the queue of a judge elsewhere."""

    ahead: int | None
    """Evaluations that come first; None while it waits for a place in the queue."""


class StageEntered(AttemptEvent):
    """An evaluation enters its next stage."""

    stage: Stage


class Judged(AttemptEvent):
    """An evaluation is recorded."""

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


class ProviderTrouble(AttemptEvent):
    """No reply; nothing is scored."""

    message: str
    for_good: bool = False
    """True when its model is not asked again."""


class EvaluatorTrouble(AttemptEvent):
    """The evaluator or its machine failed; nothing is scored."""

    message: str


class Skipped(RunEvent):
    """A problem cannot be evaluated with these settings."""

    problem: str
    message: str


class Kept(AttemptEvent):
    """A kernel was saved to `generated/`."""

    kernel: str
    folder: str
    speedup: float | None


class Refused(AttemptEvent):
    """A candidate that passed is not saved."""

    message: str


class BudgetReached(RunEvent):
    """No further request is sent; replies are still evaluated."""

    what: str


class Interrupting(RunEvent):
    """The user asked to stop; work in flight is finished."""

    replies: int = 0
    evaluations: int = 0
    kernels: int = 0
    """Kernels that are being built once more, or saved."""


class RunSummary(Record):
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
    skipped: dict[str, str] = {}
    """Problem id to the reason it was skipped."""
    cost_usd: Decimal = Decimal(0)
    """Cost of the replies whose price is known."""
    unpriced: int = 0
    """Replies of unknown cost."""
    budget: Budget = Budget()
    """The run's limits, those set by a resume included."""
    remembered: int = 0
    """Replies that came from the completion cache."""
    usage: Usage = Usage()
    seconds: float = 0.0
    """Wall time, earlier processes included."""
    best: dict[str, float] = {}
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


class RunClosed(RunEvent):
    """The run stopped."""

    summary: RunSummary


Event: TypeAlias = RunEvent | Retrying


def event_line(event: Event) -> str:
    """An event as one JSON object: its name under `event`, the time now under `at` (ISO 8601, UTC)."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    told = event.model_dump() if isinstance(event, RunEvent) else asdict(event)
    return json.dumps({"event": type(event).__name__, "at": at, **told}, default=float)
