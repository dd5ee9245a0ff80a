"""Budgets: exact to one attempt, whatever is in flight."""

from __future__ import annotations

import asyncio
import random
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from kernelwright.agent.records.budgets import Budget, BudgetReachedError, Cost, Ledger


async def spend(
    ledger: Ledger, costs: list[Cost], *, workers: int, seed: int, bound: int | None = None
) -> int:
    """Let so many workers spend until the budget or the costs are used up; returns how many were let in."""
    dice, left, done = random.Random(seed), list(costs), 0

    async def work() -> None:
        nonlocal done
        while left:
            try:
                hold = await ledger.admit(bound)
            except BudgetReachedError:
                return
            if not left:
                ledger.release(hold)
                return
            cost = left.pop(0)
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            ledger.book(cost, typical=True)
            ledger.release(hold)
            done += 1

    await asyncio.wait_for(asyncio.gather(*(work() for _ in range(workers))), 30)
    return done


def cents(amount: int) -> Decimal:
    return Decimal(amount) / 100


@given(limit=st.integers(0, 40), workers=st.integers(1, 12), seed=st.integers(0, 99))
@settings(max_examples=50)
def test_attempts_are_exact(limit: int, workers: int, seed: int) -> None:
    ledger = Ledger(Budget(attempts=limit))
    assert asyncio.run(spend(ledger, [Cost(attempts=1, tokens=9)] * 60, workers=workers, seed=seed)) == limit


@given(limit=st.integers(0, 3000), workers=st.integers(1, 12), seed=st.integers(0, 99))
@settings(max_examples=50)
def test_equal_attempts_overshoot_tokens_and_money_by_less_than_one(
    limit: int, workers: int, seed: int
) -> None:
    for budget in (Budget(tokens=limit), Budget(cost_usd=cents(limit))):
        ledger = Ledger(budget)
        costs = [Cost(attempts=1, tokens=70, cost_usd=cents(70))] * 60
        asyncio.run(spend(ledger, costs, workers=workers, seed=seed))
        assert min(limit, 60 * 70) <= ledger.spent.tokens < limit + 70


@given(
    limit=st.integers(1, 3000),
    tokens=st.lists(st.integers(0, 100), min_size=100, max_size=100),
    workers=st.integers(1, 12),
)
@settings(max_examples=50)
def test_with_a_bound_on_each_attempt_the_overshoot_is_below_one_attempt(
    limit: int, tokens: list[int], workers: int
) -> None:
    ledger = Ledger(Budget(tokens=limit))
    costs = [Cost(attempts=1, tokens=amount) for amount in tokens]
    asyncio.run(spend(ledger, costs, workers=workers, seed=0, bound=100))
    assert ledger.spent.tokens < limit + 100
    assert ledger.spent.tokens >= min(limit, sum(tokens))


def test_the_sum_of_many_small_costs_is_exact() -> None:
    ledger = Ledger(Budget())
    for _ in range(1000):
        ledger.book(Cost(attempts=1, cost_usd=Decimal(repr(0.1))), typical=True)
    assert ledger.spent.cost_usd == 100


def test_time_is_watched_and_what_was_spent_earlier_counts() -> None:
    time = [0.0]
    ledger = Ledger(Budget(seconds=10), Cost(seconds=4), clock=lambda: time[0])
    ledger.check()
    time[0] = 5.9
    ledger.check()
    time[0] = 6.0
    with pytest.raises(BudgetReachedError, match="10 s of wall time"):
        ledger.check()


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(attempts=0), "budget of 0 attempts reached"),
        (Budget(cost_usd=Decimal("1e-6")), r"budget of \$0\.000001 reached"),
        (Budget(tokens=0), "0 tokens"),
        (Budget(cost_usd=Decimal("0.00")), r"\$0.00"),
    ],
)
def test_a_spent_budget_says_which(budget: Budget, words: str) -> None:
    with pytest.raises(BudgetReachedError, match=words):
        asyncio.run(Ledger(budget, Cost(cost_usd=Decimal(1))).admit())


def test_a_released_place_lets_the_next_in() -> None:
    async def story() -> None:
        ledger = Ledger(Budget(attempts=1))
        hold = await ledger.admit()
        waiting = asyncio.ensure_future(ledger.admit())
        await asyncio.sleep(0)
        assert not waiting.done()
        ledger.release(hold)
        await asyncio.wait_for(waiting, 5)

    asyncio.run(story())


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ValidationError):
        Budget(attempts=-1)
    assert Budget.model_validate_json(Budget(cost_usd=Decimal("0.10")).model_dump_json()).cost_usd == Decimal(
        "0.10"
    )
