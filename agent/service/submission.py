"""The submission of a client: its form, and its resolution to a problem, a candidate and a policy."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StrictBool, StringConstraints

from kernelwright.agent.records.score_policy import asked_policy
from kernelwright.agent.service.policy import BATCH, SOURCE_CHARACTERS
from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    Dtype,
    EvaluationConfig,
    Limits,
    Math,
    Passes,
    Problem,
    ProblemError,
    Record,
    Sanitize,
    find_backend,
    problem_from_source,
    sha256_text,
)

Name = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$")
]
Source = Annotated[str, StringConstraints(min_length=1, max_length=SOURCE_CHARACTERS)]
Amount = Annotated[float, Field(gt=0, strict=True)]


class ClientRecord(Record):
    """Base of the records that clients send: closed, without NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class AskedProblem(ClientRecord):
    """A problem: one of the service's own, or, where its operator allows it, the client's."""

    id: Annotated[Name, StringConstraints(max_length=200)]
    """Such as `level1/01_square_matmul`."""
    sha: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the text that is meant; another text under this id is refused."""
    source: Source | None = None
    """A KernelBench-format file; without it the problem is one of the service's own."""


class AskedLimits(ClientRecord):
    """Bounds on one evaluation, none above the operator's; the fields of the evaluator's `Limits`."""

    compile_s: Amount | None = None
    build_s: Amount | None = None
    load_s: Amount | None = None
    call_s: Amount | None = None
    sanitize_s: Amount | None = None
    total_s: Amount | None = None
    memory_gib: Amount | None = None
    processes: Annotated[int, Field(ge=8, strict=True)] | None = None
    file_mib: Annotated[int, Field(ge=1, strict=True)] | None = None
    output_kib: Annotated[int, Field(ge=1, strict=True)] | None = None


class AskedPolicy(ClientRecord):
    """The part of an evaluation's policy that is the client's; the rest is the operator's."""

    shapes: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    """A name in the problem's `SHAPES`."""
    passes: Passes | None = None
    """Evaluate gradients, too."""
    dtype: Dtype | None = None
    math: Math | None = None
    baselines: (
        Annotated[tuple[Literal["eager", "compile"], ...], Field(min_length=1, max_length=2)] | None
    ) = None
    trials: Annotated[int, Field(ge=1, le=100, strict=True)] | None = None
    measure: StrictBool | None = None
    """Measure speed; without it a correct candidate passes with no speedup."""
    sanitize: Sanitize | None = None
    counters: StrictBool | None = None
    """Read a GPU's hardware counters for what passed, where the operator may."""
    limits: AskedLimits = AskedLimits()


class Submission(ClientRecord):
    """One evaluation, as a client asks for it."""

    problem: AskedProblem | Annotated[Name, StringConstraints(max_length=200)]
    """The id of one of the service's problems, or an object that says more."""
    candidate: Source
    """The whole text of a module that defines `ModelNew`."""
    backend: Annotated[str, StringConstraints(max_length=40)] = "cuda"
    """Language of the candidate: `cuda`, `triton`, `cpp` and so on."""
    config: AskedPolicy = AskedPolicy()
    fresh: StrictBool = False
    """Evaluate again even if this content has a result, until five results count; their median is told."""

    only_known: StrictBool = False
    """Join what is queued or running or has a result, else answer 404: nothing new is accepted."""

    @property
    def wanted(self) -> AskedProblem:
        """The problem in its long form."""
        return self.problem if isinstance(self.problem, AskedProblem) else AskedProblem(id=self.problem)


class SubmissionBatch(ClientRecord):
    """Several submissions in one request."""

    submissions: Annotated[tuple[Submission, ...], Field(min_length=1, max_length=BATCH)]


class Content(Record):
    """An evaluation to do, resolved and bounded; equal contents are one evaluation."""

    problem: Problem
    candidate: Candidate
    config: EvaluationConfig
    is_limited: bool = False
    """True with limits below the operator's; a failure under them is no result of the candidate."""

    def id(self, evaluator: str) -> str:
        """Content address, 64 hex digits, the same for settings of one policy.

        `evaluator` names version and hardware.
        """
        is_gpu = find_backend(self.candidate.backend).device != "cpu"
        policy = asked_policy(self.config, is_gpu=is_gpu).id
        parts = (evaluator, self.problem.id, self.problem.sha, self.candidate.sha, policy)
        return sha256_text(json.dumps(parts))


def policy_of(asked: AskedPolicy, operator: EvaluationConfig) -> EvaluationConfig:
    """The operator's policy with the client's choices; raises ConfigError for a limit that is too high."""
    limits = asked.limits.model_dump(exclude_none=True)
    for name, value in limits.items():
        most = getattr(operator.limits, name)
        if value > most:
            raise ConfigError(f"limits.{name} is at most {most:g} here, not {value:g}")
    choices = asked.model_dump(exclude_none=True, exclude={"limits"})
    bounded = Limits.model_validate(operator.limits.model_dump() | limits)
    return EvaluationConfig.model_validate(operator.model_dump() | choices | {"limits": bounded})


class ProblemRegistry:
    """The problems of a service by id; text of a client is never used as a path."""

    def __init__(
        self,
        problems: Sequence[Problem],
        *,
        operator: EvaluationConfig,
        kinds: Collection[str],
        allows_sources: bool = False,
    ) -> None:
        """`operator` is the policy that clients may change in part, `kinds` the kinds of device here."""
        self.problems: Mapping[str, Problem] = {problem.id: problem for problem in problems}
        self._operator = operator
        self._kinds = frozenset(kinds)
        self._allows_sources = allows_sources

    def resolve(self, submission: Submission) -> Content:
        """Resolve a submission.

        Raises:
            ProblemError: no such problem, another text under its id, or one that is malformed or not wanted.
            ConfigError: unknown backend or shape name, no device for the backend, or too high a limit.
        """
        problem = self._problem(submission.wanted)
        backend = find_backend(submission.backend)
        if backend.device not in self._kinds:
            known = ", ".join(sorted(self._kinds))
            raise ConfigError(f"no device for backend {backend.name!r} here; this service has {known}")
        config = policy_of(submission.config, self._operator)
        problem.overrides(config.shapes)
        candidate = Candidate(source=submission.candidate, backend=backend.name)
        is_limited = config.limits != self._operator.limits
        return Content(problem=problem, candidate=candidate, config=config, is_limited=is_limited)

    def _problem(self, wanted: AskedProblem) -> Problem:
        if wanted.source is None:
            problem = self.problems.get(wanted.id)
            if problem is None:
                raise ProblemError(f"no problem {wanted.id!r} here; GET /v1/problems lists them")
        elif not self._allows_sources:
            raise ProblemError(
                "this service takes no problem sources; name one of its own (GET /v1/problems), "
                "or have its operator pass --allow-problem-sources"
            )
        else:
            problem = _read(wanted.source, wanted.id)
        if wanted.sha is not None and wanted.sha != problem.sha:
            raise ProblemError(f"problem {problem.id} has the hash {problem.sha} here, not {wanted.sha}")
        return problem


def _read(source: str, name: str) -> Problem:
    try:
        return problem_from_source(source, name)
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        # Python's parser raises these on hostile text.
        raise ProblemError(f"problem {name} cannot be read: {type(error).__name__}") from None
