"""The seam between whoever wants a candidate evaluated and the place where that happens.

Also the failures that travel between machines, and the errors they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol, Self, TypeAlias

from kernelwright.evaluator import (
    Cancelled,
    CancelToken,
    Candidate,
    ConfigError,
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    FullHeaderBuild,
    MachineError,
    Problem,
    ProblemError,
    Record,
    Stage,
)

_ERRORS: Final[Mapping[str, type[EvaluatorError]]] = MappingProxyType(
    {"problem": ProblemError, "config": ConfigError, "machine": MachineError, "cancelled": Cancelled}
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


class EvaluationFailure(Record):
    """The reason why there is no result; never a score."""

    kind: str
    """`machine`, `problem`, `config` or `evaluator`."""
    message: str

    @classmethod
    def of(cls, error: Exception) -> Self:
        """The failure that an error is; `evaluator` is the kind of whatever else an evaluator raises."""
        kinds = (kind for kind, known in _ERRORS.items() if isinstance(error, known))
        return cls(kind=next(kinds, "evaluator"), message=told(error))

    def error(self, where: str) -> EvaluatorError:
        """The error that it is, of an evaluator somewhere else."""
        return _ERRORS.get(self.kind, EvaluatorError)(f"{where}: {self.message}")


def told(error: Exception) -> str:
    """The message of an error, with the name of one that no evaluator should raise."""
    name = "" if isinstance(error, EvaluatorError) else f"{type(error).__name__}: "
    return f"{name}{error}"


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
