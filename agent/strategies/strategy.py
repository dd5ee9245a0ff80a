"""The seam of a strategy: a frozen record of settings that solves assignments.

Subclass `Strategy`, give it a `name`, register it, and `kernelwright run --strategy NAME` takes it:

    [project.entry-points."kernelwright.strategies"]
    theirs = "their_package:Theirs"

Its fields are what `--set options.FIELD=VALUE` sets; the first line of its docstring describes it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Self

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.strategies.base import Assignment
from kernelwright.evaluator import ConfigError, Record, load_plugin


class Independent(StrEnum):
    """The smallest unit of work that owes nothing to its siblings."""

    ATTEMPT = "attempt"
    """Every attempt answers the opening: it may be requested in bulk, and counts as a sample of its own."""
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
    """False for one that only evaluates replies which the log holds."""

    @property
    def planned(self) -> int:
        """Most attempts an assignment makes."""
        raise NotImplementedError

    def within(self, attempts: int) -> Self:
        """The same settings, laid out to spend a budget of so many attempts at each problem."""
        raise NotImplementedError

    async def solve(self, work: Assignment) -> list[Attempt]:
        """Make attempts until the settings or the budget end it; returns those that were evaluated.

        Must choose by the log and `work.seed` alone: after a crash it runs again from the start, and
        `work.ask` answers from the log what was asked before.
        """
        raise NotImplementedError


def find_strategy(name: str) -> type[Strategy]:
    """The strategy of a name, as registered.

    Raises:
        ConfigError: there is none, or what is registered is no strategy.
    """
    found = load_plugin("strategies", name)
    if isinstance(found, type) and issubclass(found, Strategy):
        return found
    raise ConfigError(f"strategy {name!r} is registered as {found!r}, which is no subclass of Strategy")
