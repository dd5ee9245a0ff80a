"""The lines of the attempts log: the events of a run in order.

Lines are small: a text beyond `INLINE_BYTES` lies in a file of its own, named by its hash. Nothing here reads
or writes; `kernelwright.agent.archive` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from kernelwright.agent.extraction.extract import ExtractionOutcome
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import Sampling, Usage
from kernelwright.agent.records.score import Score
from kernelwright.evaluator import Record, Status, sha256_text

SCHEMA_VERSION: Final = 1
"""Raised when a line changes so that an older reader would misunderstand it."""

INLINE_BYTES: Final = 1024
"""Longest text that is written into a line itself."""

ID_DIGITS: Final = 32


class TextRef(Record):
    """A text in a content-addressed file of its run."""

    sha: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int
    """UTF-8 bytes."""


Text: TypeAlias = str | TextRef
"""A short text itself, or the reference to a long one."""


class StoredMessage(Record):
    """One message of a prompt, as it was sent."""

    role: Literal["system", "user", "assistant"]
    content: Text


class AttemptKey(Record):
    """Identity of an attempt; requests with equal keys are the same attempt."""

    run: str
    problem: str
    """Problem id."""
    backend: str
    model: str
    """The model as asked for."""
    strategy: str
    sample: int = 0
    """Number of the independent sample, conversation or population slot."""
    turn: int = 0
    """Turn of the conversation, or generation of the population, from 0."""

    @property
    def attempt(self) -> str:
        """The attempt's id: a content address of every field."""
        parts = (self.run, self.problem, self.backend, self.model, self.strategy, self.sample, self.turn)
        return sha256_text("\0".join(str(part) for part in parts))[:ID_DIGITS]


class ProblemUsed(Record):
    """A problem as it was when the run began."""

    id: str
    sha: str
    source: Text


class Line(Record):
    """Fields of every line."""

    schema_version: int = SCHEMA_VERSION
    at: str
    """Time of writing: UTC, ISO 8601."""


class RunStarted(Line):
    """The first line of every log."""

    kind: Literal["run_started"] = "run_started"
    run: str
    plan: Text
    """The run's plan, JSON; enough to resume it."""
    settings: Text = ""
    """The settings (TOML) the plan was read from, as the user wrote them."""
    problems: tuple[ProblemUsed, ...] = ()
    versions: dict[str, str] = {}
    """Versions of this program and its dependencies."""
    git_commit: str | None = None
    """The checkout's commit, `-dirty` appended when it had changes; None outside a checkout."""


class RunResumed(Line):
    """Another process resumes the run."""

    kind: Literal["run_resumed"] = "run_resumed"
    versions: dict[str, str] = {}
    bounds: Budget = Budget()
    """Limits of the whole run from here on; they replace earlier ones."""


class CompletionRecorded(Line):
    """A reply arrived and is paid for."""

    kind: Literal["completion"] = "completion"
    attempt: str
    """`key.attempt`."""
    key: AttemptKey
    parents: tuple[str, ...] = ()
    """Attempts whose kernels the prompt showed."""
    exemplars: tuple[str, ...] = ()
    """Saved kernels of other problems that the prompt showed."""
    request_sha: str
    """Content address of model, messages and sampling."""
    prompt: tuple[StoredMessage, ...]
    sampling: Sampling = Sampling()
    reply: Text
    reasoning: Text = ""
    finish_reason: str
    usage: Usage = Usage()
    cost_usd: float | None = None
    cached: bool = False
    """True if it came from the completion cache; tokens are of the first request, the cost is 0."""
    provider: str
    answered_by: str
    """The model the endpoint reports."""
    seconds: float
    retries: int = 0
    response_id: str = ""
    completed_at: str
    outcome: ExtractionOutcome
    """Outcome of the extraction of a candidate."""
    rule: str
    """The extraction rule that decided."""
    notes: tuple[str, ...] = ()
    """Further remarks of the extraction."""
    code: Text | None = None
    """The candidate's source, present when it was found."""
    license: str | None = None
    """Licence the run's settings state for this model's output; None when they state none."""
    origin: str = ""
    """Origin of a reply that no model gave: a handwritten recording, an imported file."""


class EvaluationRecorded(Line):
    """An evaluation of an attempt; a later one on the same attempt replaces it in every view."""

    kind: Literal["evaluation"] = "evaluation"
    attempt: str
    evaluation_sha: str
    """Content address of the whole evaluation's JSON."""
    score: Score
    evaluation: Text
    """The whole `Evaluation`, JSON."""
    reused_from: str | None = None
    """The attempt of this run whose evaluation of the same candidate this is."""
    confirms: bool = False
    """True for a second evaluation of the best of several attempts."""


class ProviderFailed(Line):
    """No reply after all retries; never scored, asked again on resume."""

    kind: Literal["provider_failure"] = "provider_failure"
    attempt: str
    key: AttemptKey
    message: str


class EvaluatorFailed(Line):
    """The evaluator or its machine failed; the attempt is evaluated on resume."""

    kind: Literal["evaluator_failure"] = "evaluator_failure"
    attempt: str
    message: str


class ProblemSkipped(Line):
    """A problem that cannot be evaluated with these settings, and the reason."""

    kind: Literal["problem_skipped"] = "problem_skipped"
    problem: str
    message: str


class KernelKept(Line):
    """A candidate that passed went to `generated/`."""

    kind: Literal["kernel_kept"] = "kernel_kept"
    attempt: str
    kernel: str
    folder: str
    """Relative to the workspace."""


class KernelRefused(Line):
    """A candidate that passed is not saved."""

    kind: Literal["kernel_refused"] = "kernel_refused"
    attempt: str
    message: str


class AssignmentDone(Line):
    """One problem, backend, model and strategy is done."""

    kind: Literal["assignment_finished"] = "assignment_finished"
    problem: str
    backend: str
    model: str
    strategy: str = ""
    """Empty in logs older than this field: such an assignment is repeated from the log."""
    attempts: int


class RunEnd(StrEnum):
    """The reason a run stopped."""

    COMPLETE = "complete"
    ASKED = "asked"
    """Evaluation is left to a later process; replies are recorded or pending."""
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    INCOMPLETE = "incomplete"
    """Some requests got no reply, replies no evaluation, or the best no second one; a resume tries again."""
    BROKEN = "broken"
    """A provider, the evaluator or its machine kept failing."""


class RunFinished(Line):
    """A run stopped in an orderly way; without this line it was killed."""

    kind: Literal["run_finished"] = "run_finished"
    end: RunEnd
    reason: str = ""


class LogRepaired(Line):
    """A half-written last line was moved aside."""

    kind: Literal["log_repaired"] = "log_repaired"
    size: int
    """Bytes moved."""
    moved_to: str
    """File, relative to the run's folder."""


AnyLine: TypeAlias = Annotated[
    RunStarted
    | RunResumed
    | CompletionRecorded
    | EvaluationRecorded
    | ProviderFailed
    | EvaluatorFailed
    | ProblemSkipped
    | KernelKept
    | KernelRefused
    | AssignmentDone
    | RunFinished
    | LogRepaired,
    Field(discriminator="kind"),
]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A reply and its latest evaluation."""

    completion: CompletionRecorded
    evaluation: EvaluationRecorded | None = None
    """None until it was evaluated."""

    @property
    def id(self) -> str:
        return self.completion.attempt

    @property
    def key(self) -> AttemptKey:
        return self.completion.key

    @property
    def status(self) -> Status | None:
        """None until evaluated."""
        return self.evaluation.score.status if self.evaluation else None

    @property
    def speedup(self) -> float | None:
        """Against the fastest baseline; present only when it passed, was timed, and may be compared."""
        if self.evaluation is None or self.evaluation.score.why_unfit:
            return None
        return self.evaluation.score.speedup

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED
