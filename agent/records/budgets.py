"""Budgets, and the ledger that stops a run in time.

An attempt is admitted only while it fits beside those in flight, so at most one overshoots. The ledger
expects each to cost the most that any has cost so far (or a given bound); until then it admits one at a time.
"""

from __future__ import annotations

import asyncio
import operator
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from decimal import Decimal

from pydantic import Field

from kernelwright.evaluator import Record


class Budget(Record):
    """Limits on spending; None is no limit."""

    attempts: int | None = Field(default=None, ge=0)
    """Replies the whole run may ask for."""
    tokens: int | None = Field(default=None, ge=0)
    """Prompt and completion tokens the run may use, as endpoints count them."""
    cost_usd: Decimal | None = Field(default=None, ge=0)
    """Dollars the run may cost, by the price table; every model needs a price."""
    seconds: float | None = Field(default=None, ge=0)
    """Wall time a process may work on the run, in seconds."""

    def with_limits(self, others: Budget) -> Budget:
        """Return these limits, replaced by those that `others` sets."""
        return self.model_copy(update={name: limit for name, limit in others if limit is not None})


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount spent or expected."""

    attempts: int = 0
    tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*map(operator.sub, astuple(self), astuple(other)))


class BudgetReachedError(Exception):
    """A budget is spent; the message names it."""


class Ledger:
    """Counts one budget down. Lives in one event loop."""

    def __init__(
        self, budget: Budget, spent: Cost | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.budget = budget
        self._spent = spent or Cost()
        self._largest: Cost | None = None
        self._in_flight = 0
        self._held = Cost()
        """Expected cost of the requests in flight."""
        self._clock = clock
        self._began = clock()
        self._changed = asyncio.Event()

    @property
    def spent(self) -> Cost:
        """The amount spent so far, seconds included."""
        return self._spent + Cost(seconds=self._clock() - self._began)

    async def admit(self, bound_tokens: int | None = None) -> Cost:
        """Wait until one more attempt fits; return its expected cost, which `release` gives back.

        `bound_tokens` is the most the attempt can use, if known.

        Raises:
            BudgetReachedError: the budget is spent.
        """
        while True:
            self.check()
            largest = self._largest or Cost()
            tokens = largest.tokens if bound_tokens is None else bound_tokens
            expected = Cost(attempts=1, tokens=tokens, cost_usd=largest.cost_usd)
            if not self._in_flight or self._fits(expected, known=bound_tokens is not None):
                self._in_flight += 1
                self._held += expected
                return expected
            self._changed.clear()
            await self._changed.wait()

    def check(self) -> None:
        """Raise BudgetReachedError unless something is left."""
        for name, limit, spent in self._limits(self.spent):
            if spent >= limit:
                raise BudgetReachedError(f"budget of {_amount(name, limit)} reached")

    def book(self, cost: Cost, *, typical: bool) -> None:
        """Count the cost of a reply; an atypical one (from the cache) does not inform expectations."""
        self._spent += cost
        if not typical:
            return
        known = self._largest or cost
        self._largest = Cost(
            attempts=1, tokens=max(known.tokens, cost.tokens), cost_usd=max(known.cost_usd, cost.cost_usd)
        )

    def release(self, expected: Cost) -> None:
        """Return an admitted attempt's place, after its cost, if any, was booked."""
        self._in_flight -= 1
        self._held -= expected
        self._changed.set()

    def _fits(self, expected: Cost, *, known: bool) -> bool:
        guessing = self._largest is None and (
            self.budget.cost_usd is not None or (self.budget.tokens is not None and not known)
        )
        after = self.spent + self._held + expected
        return not guessing and all(
            spent <= limit for name, limit, spent in self._limits(after) if name != "seconds"
        )

    def _limits(self, spent: Cost) -> list[tuple[str, float | Decimal, float | Decimal]]:
        return [(name, limit, getattr(spent, name)) for name, limit in self.budget if limit is not None]


def _amount(name: str, limit: float | Decimal) -> str:
    match name:
        case "cost_usd":
            dollars, _, cents = f"{limit:f}".partition(".")
            return f"${dollars}.{cents:0<2}"
        case "seconds":
            return f"{limit:g} s of wall time"
        case _:
            return f"{limit:,} {name}"
