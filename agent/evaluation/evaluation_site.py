"""The seam between whoever wants a candidate evaluated and the place where that happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias

from kernelwright.evaluator import (
    CancelToken,
    Candidate,
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    FullHeaderBuild,
    Problem,
    Stage,
)


def ignore(_: object) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """One candidate to evaluate."""

    problem: Problem
    candidate: Candidate
    config: EvaluationConfig
    besides: tuple[Evaluation, ...] = ()
    """Evaluations that are known already; another one is wanted. This machine evaluates in any case."""


@dataclass(frozen=True, slots=True)
class EvaluationHooks:
    """The caller's part in an evaluation under way. Called in the thread that evaluates; may raise."""

    on_stage: Callable[[Stage], None] = ignore
    on_queue: Callable[[int | None], None] = ignore
    """Told how many evaluations come first, while it waits elsewhere; None while that queue is full."""
    stop: CancelToken | None = None


Evaluate: TypeAlias = Callable[[EvaluationRequest, EvaluationHooks], Evaluation]
"""Evaluates one candidate; raises `EvaluatorError` where there is no result. Called in several threads."""
BuildsPlainly: TypeAlias = Callable[[Evaluation], FullHeaderBuild]
"""Rebuilds a kernel with torch's own headers."""


class CandidateQuarantined(EvaluatorError):
    """A candidate took machines down and is evaluated no more; others of its problem are."""


class EvaluationSite(Protocol):
    """A place where candidates are evaluated. A context manager: leaving it ends what is under way."""

    @property
    def builds_plainly(self) -> BuildsPlainly | None:
        """None where that is impossible."""

    @property
    def at_once(self) -> int:
        """The number of evaluations under way that keeps its devices busy."""

    @property
    def capacity(self) -> str:
        """The number of evaluations at once and what limits it, in words."""

    @property
    def machine(self) -> str:
        """A name that differs wherever scores are not comparable."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def evaluate(self, request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        """Evaluate one candidate.

        Raises:
            Cancelled: the caller stopped it, or the site is closed.
            ConfigError, ProblemError: neither this candidate nor another can be evaluated so.
            MachineError: no machine evaluates now.
            EvaluatorError: the evaluator itself failed; nothing is scored.
        """


class RemoteEvaluationSite(EvaluationSite, Protocol):
    """Machines elsewhere."""

    @property
    def devices(self) -> dict[str, str]:
        """The name of their device of each kind, `cpu` or `cuda`."""

    @property
    def torch(self) -> str:
        """Their version of torch."""

    def kinds(self) -> set[str]:
        """The kinds of device they have, asked before the site is entered; raises what entering it does."""
