"""The seam of a strategy: a frozen record of settings that solves assignments, and its view of its work.

Subclass `Strategy`, give it a `name`, register it, and `kernelwright run --strategy NAME` takes it:

    [project.entry-points."kernelwright.strategies"]
    theirs = "their_package:Theirs"

Its fields are what `--set options.FIELD=VALUE` sets; the first line of its docstring describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol, Self

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.messages import Message
from kernelwright.evaluator import ConfigError, Evaluation, Problem, Record, load_plugin


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
        """Return a recorded reply, or raise NoAttemptError; `evaluate` must follow."""

    async def evaluate(self, attempt: Attempt, twin: Attempt | None = None) -> Attempt:
        """Evaluate an attempt, or raise NoAttemptError; `twin` is an evaluated one of equivalent code."""

    def messages(self, attempt: Attempt) -> tuple[Message, ...]:
        """Return the prompt as it was sent."""

    def reply(self, attempt: Attempt) -> str: ...

    def code(self, attempt: Attempt) -> str | None:
        """The candidate's source; None when the reply held none."""

    def evaluation(self, attempt: Attempt) -> Evaluation:
        """The whole evaluation of an evaluated attempt."""


class Independent(StrEnum):
    """The smallest unit of independent work."""

    ATTEMPT = "attempt"
    """Every attempt follows from the opening: it can be requested in bulk, and counts as one sample."""
    SAMPLE = "sample"
    """Turns of one sample build on each other."""
    ASSIGNMENT = "assignment"
    """All attempts at a problem build on each other: together they are one sample."""


class Strategy(Record):
    """Spends a budget of questions on one problem."""

    name: str
    """Its name in records and on the command line."""

    independent: ClassVar[Independent] = Independent.ASSIGNMENT
    asks: ClassVar[bool] = True
    """False if it only evaluates replies that the log holds."""

    @property
    def planned(self) -> int:
        """Most attempts an assignment makes."""
        raise NotImplementedError

    def within(self, attempts: int) -> Self:
        """The same settings, adapted to a budget of attempts at each problem."""
        raise NotImplementedError

    async def solve(self, work: Assignment) -> list[Attempt]:
        """Make attempts until the settings or the budget end it; return the evaluated ones.

        Must choose by the log and `work.seed` alone: after a crash it runs again from the start, and
        `work.ask` returns recorded replies from the log.
        """
        raise NotImplementedError


def find_strategy(name: str) -> type[Strategy]:
    """Return the registered strategy of a name; raises ConfigError if there is none."""
    found = load_plugin("strategies", name)
    if isinstance(found, type) and issubclass(found, Strategy):
        return found
    raise ConfigError(f"strategy {name!r} is registered as {found!r}, which is no subclass of Strategy")
