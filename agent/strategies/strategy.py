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
    """Return the registered strategy of a name.

    Raises:
        ConfigError: no strategy is registered under it.
    """
    found = load_plugin("strategies", name)
    if isinstance(found, type) and issubclass(found, Strategy):
        return found
    raise ConfigError(f"strategy {name!r} is registered as {found!r}, which is no subclass of Strategy")
