"""The strategy's view of its work: an assignment that asks and evaluates, and prompts to send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.messages import Message
from kernelwright.evaluator import Evaluation, Problem


class NoAttemptError(Exception):
    """A question got no evaluated attempt: no reply, a spent budget, a broken machine, an interrupt.

    Whoever raised it has recorded and reported why; a strategy ends that line of work and returns.
    """


class AssignmentSpentError(NoAttemptError):
    """The assignment's own budget is spent; a resume would change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The next question of an assignment."""

    sample: int
    turn: int
    compose: Callable[[], tuple[Message, ...]]
    """Makes the messages; not called when the log already holds the reply."""
    parents: tuple[str, ...] = ()
    """Attempts whose kernels the messages show."""
    exemplars: tuple[str, ...] = ()
    """Kept kernels of other problems that the messages show."""


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A measured kernel that a prompt shows."""

    code: str
    evaluation: Evaluation
    kernel: str = ""
    """Id of the kept kernel; empty for an attempt of this run."""


class Prompts(Protocol):
    """Renders what is sent to a model; the text itself lies in `prompts/`."""

    def opening(
        self, problem: Problem, backend: str, exemplars: Sequence[Exemplar] = ()
    ) -> tuple[Message, ...]:
        """The messages that begin a conversation; the last one is the user's."""
        ...

    def feedback(self, evaluation: Evaluation, code: str | None, worse: Evaluation | None = None) -> str:
        """Feedback on a reply; `worse` is a later try that was given up for this one."""
        ...


def opening(work: Assignment) -> tuple[Message, ...]:
    """The messages that begin every conversation of an assignment."""
    return work.prompts.opening(work.problem, work.backend, work.exemplars)


def shown(work: Assignment) -> tuple[str, ...]:
    """The kept kernels that an opening shows."""
    return tuple(exemplar.kernel for exemplar in work.exemplars)


class Assignment(Protocol):
    """One problem, given to one model with one backend."""

    @property
    def problem(self) -> Problem:
        """The problem to make faster."""
        ...

    @property
    def backend(self) -> str:
        """The backend to write the kernel with."""
        ...

    @property
    def seed(self) -> int:
        """Seeds every random choice; differs between assignments and is the same after a resume."""
        ...

    @property
    def prompts(self) -> Prompts:
        """The prompts of the run."""
        ...

    @property
    def exemplars(self) -> tuple[Exemplar, ...]:
        """Kept kernels that every opening shows."""
        ...

    def has(self, sample: int, turn: int) -> bool:
        """True when the log holds that reply already."""
        ...

    async def ask(self, question: Question) -> Attempt:
        """A reply, recorded; `judge` must follow.

        Raises:
            NoAttemptError: none came.
        """
        ...

    async def evaluate(self, attempt: Attempt, twin: Attempt | None = None) -> Attempt:
        """The attempt, evaluated; `twin` is a judged one whose candidate means the same.

        Raises:
            NoAttemptError: it could not be judged.
        """
        ...

    def messages(self, attempt: Attempt) -> tuple[Message, ...]:
        """The prompt it answered, as it was sent."""
        ...

    def reply(self, attempt: Attempt) -> str:
        """The reply's text."""
        ...

    def code(self, attempt: Attempt) -> str | None:
        """The candidate's source; None when the reply held none."""
        ...

    def evaluation(self, attempt: Attempt) -> Evaluation:
        """The whole evaluation of an evaluated attempt."""
        ...
