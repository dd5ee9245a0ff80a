"""What a client may ask for, and the policy and content id that makes of it."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, StrictBool, StringConstraints

from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    Dtype,
    EvaluationConfig,
    Limits,
    Math,
    Passes,
    Problem,
    Record,
    Sanitize,
    sha256_text,
)

LONGEST_SOURCE: Final = 4 << 20
"""Characters of a candidate or a problem."""

Name = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$")
]
Source = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_SOURCE)]
Amount = Annotated[float, Field(gt=0, strict=True)]


class Asked(Record):
    """Base of what clients send: closed, and without NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class AskedProblem(Asked):
    """A problem: one of the service's own, or, where its operator allows it, the client's."""

    id: Annotated[Name, StringConstraints(max_length=200)]
    """Such as `level1/01_square_matmul`."""
    sha: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the text the client means; another text under this id is refused."""
    source: Source | None = None
    """A KernelBench-format file; without it the problem is one of the service's own."""


class AskedLimits(Asked):
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


class AskedPolicy(Asked):
    """The part of an evaluation's policy that is the client's; the rest is the operator's."""

    shapes: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    """A name in the problem's `SHAPES`."""
    passes: Passes | None = None
    """Whether gradients are judged too."""
    dtype: Dtype | None = None
    math: Math | None = None
    baselines: (
        Annotated[tuple[Literal["eager", "compile"], ...], Field(min_length=1, max_length=2)] | None
    ) = None
    trials: Annotated[int, Field(ge=1, le=100, strict=True)] | None = None
    measure: StrictBool | None = None
    """Whether to measure speed; without it a right candidate passes with no speedup."""
    sanitize: Sanitize | None = None
    limits: AskedLimits = AskedLimits()


class Submission(Asked):
    """One evaluation, as a client asks for it."""

    problem: AskedProblem | Annotated[Name, StringConstraints(max_length=200)]
    """The id of one of the service's problems, or an object that says more."""
    candidate: Source
    """The whole text of a module that defines `ModelNew`."""
    backend: Annotated[str, StringConstraints(max_length=40)] = "cuda"
    """How the candidate is written: `cuda`, `triton`, `cpp` and so on."""
    config: AskedPolicy = AskedPolicy()
    fresh: StrictBool = False
    """Judge again even if this content has a verdict; what is queued or running is not doubled."""

    @property
    def wanted(self) -> AskedProblem:
        """The problem in its long form."""
        return self.problem if isinstance(self.problem, AskedProblem) else AskedProblem(id=self.problem)


class Content(Record):
    """What is judged, resolved and bounded; equal contents are one evaluation."""

    problem: Problem
    candidate: Candidate
    config: EvaluationConfig

    def id(self, judge: str) -> str:
        """Content address, 64 hex digits; `judge` names whose verdict it is."""
        parts = (
            judge,
            self.problem.id,
            self.problem.sha,
            self.candidate.sha,
            self.config.model_dump_json(),
        )
        return sha256_text(json.dumps(parts))


def policy(asked: AskedPolicy, operator: EvaluationConfig) -> EvaluationConfig:
    """The operator's policy with the client's wishes in it.

    Raises:
        ConfigError: a limit above the operator's.
    """
    limits = asked.limits.model_dump(exclude_none=True)
    for name, value in limits.items():
        most = getattr(operator.limits, name)
        if value > most:
            raise ConfigError(f"limits.{name} is at most {most:g} here, not {value:g}")
    wishes = asked.model_dump(exclude_none=True, exclude={"limits"})
    bounded = Limits.model_validate(operator.limits.model_dump() | limits)
    return EvaluationConfig.model_validate(operator.model_dump() | wishes | {"limits": bounded})
