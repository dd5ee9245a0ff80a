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

    The reason is already recorded and reported; a strategy ends that line of work and returns.
    """


class AssignmentSpentError(NoAttemptError):
    """The assignment's own budget is spent; a resume changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The next question of an assignment."""

    sample: int
    turn: int
    compose: Callable[[], tuple[Message, ...]]
    """Builds the messages; not called if the log already holds the reply."""
    parents: tuple[str, ...] = ()
    """Attempts whose kernels the messages show."""
    exemplars: tuple[str, ...] = ()
    """Saved kernels of other problems that the messages show."""


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A measured kernel that a prompt shows."""

    code: str
    evaluation: Evaluation
    kernel: str = ""
    """Id of the saved kernel; empty for an attempt of this run."""


class Prompts(Protocol):
    """Renders messages to a model from `prompts/`."""

    def opening(
        self, problem: Problem, backend: str, exemplars: Sequence[Exemplar] = ()
    ) -> tuple[Message, ...]:
        """The messages that begin a conversation; the last one is the user's."""

    def feedback(self, evaluation: Evaluation, code: str | None, worse: Evaluation | None = None) -> str:
        """Feedback on a reply; `worse` is a later attempt that was discarded for this one."""


def opening(work: Assignment) -> tuple[Message, ...]:
    """Render the messages that begin every conversation of an assignment."""
    return work.prompts.opening(work.problem, work.backend, work.exemplars)


def shown(work: Assignment) -> tuple[str, ...]:
    """Return the ids of the saved kernels that an opening shows."""
    return tuple(exemplar.kernel for exemplar in work.exemplars)


class Assignment(Protocol):
    """One problem, given to one model with one backend."""

    @property
    def problem(self) -> Problem: ...

    @property
    def backend(self) -> str: ...

    @property
    def seed(self) -> int:
        """Seeds every random choice; differs between assignments and is the same after a resume."""

    @property
    def prompts(self) -> Prompts: ...

    @property
    def exemplars(self) -> tuple[Exemplar, ...]:
        """Saved kernels that every opening shows."""

    def has(self, sample: int, turn: int) -> bool:
        """True if the log already holds that reply."""

    async def ask(self, question: Question) -> Attempt:
        """Return a recorded reply; `evaluate` must follow.

        Raises:
            NoAttemptError: there is no reply.
        """

    async def evaluate(self, attempt: Attempt, twin: Attempt | None = None) -> Attempt:
        """Evaluate an attempt; `twin` is an evaluated one with an equivalent candidate.

        Raises:
            NoAttemptError: it could not be evaluated.
        """

    def messages(self, attempt: Attempt) -> tuple[Message, ...]:
        """Return the prompt as it was sent."""

    def reply(self, attempt: Attempt) -> str: ...

    def code(self, attempt: Attempt) -> str | None:
        """The candidate's source; None when the reply held none."""

    def evaluation(self, attempt: Attempt) -> Evaluation:
        """The whole evaluation of an evaluated attempt."""
