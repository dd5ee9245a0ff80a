"""Concurrency and rates, on a clock of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from kernelwright.agent.providers.policy import BUCKET_SECONDS
from kernelwright.agent.providers.rate_limits import Limiter, RateLimits, TokenBucket

pytestmark = pytest.mark.anyio


class Clock:
    """Moves only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def outcomes(
    limiter: Limiter, *, served: int = 0, refused: int = 0, wait_s: float | None = None
) -> None:
    """So many tries, one after the other."""
    for number in range(served + refused):
        async with limiter.slot(10) as slot:
            if number < refused:
                slot.refused(wait_s)
            else:
                slot.served(10)


def test_a_bucket_refills_at_its_rate_and_lends_once() -> None:
    clock = Clock()
    bucket = TokenBucket(per_minute=60, clock=clock)
    bucket.take(10)
    assert bucket.wait_s() > 0
    clock.now += 3
    assert bucket.wait_s() == 0
    bucket.take(100)
    assert bucket.wait_s() == 97
    bucket.take(-100)
    clock.now += 1000
    bucket.take(10.5)
    assert bucket.wait_s() == 0.5


def test_a_bucket_slows_down_and_recovers() -> None:
    clock = Clock()
    bucket = TokenBucket(per_minute=60, clock=clock)
    for _ in range(100):
        bucket.slow_down()
    bucket.take(11)
    assert 9 < bucket.wait_s() < 200
    for _ in range(100):
        bucket.speed_up()
    clock.now += 1000
    bucket.take(11)
    assert bucket.wait_s() == 1


async def test_a_rare_refusal_changes_nothing() -> None:
    limiter = Limiter(RateLimits(max_concurrency=16))
    for _ in range(10):
        await outcomes(limiter, served=20, refused=1)
    assert limiter.concurrency == 16


async def test_many_refusals_lower_the_concurrency_and_replies_raise_it() -> None:
    limiter = Limiter(RateLimits(max_concurrency=16))
    await outcomes(limiter, served=5, refused=5)
    assert limiter.concurrency == 8
    await outcomes(limiter, refused=200)
    assert limiter.concurrency == 1
    await outcomes(limiter, served=500)
    assert limiter.concurrency == 16


async def test_refusals_of_tries_from_before_a_fall_are_not_counted_twice() -> None:
    limiter = Limiter(RateLimits(max_concurrency=16))
    begun = [limiter.slot(1) for _ in range(16)]
    slots = [await manager.__aenter__() for manager in begun]
    for slot in slots:
        slot.refused(None)
    assert limiter.concurrency == 8
    for manager in begun:
        await manager.__aexit__(None, None, None)
    assert limiter.state.in_flight == 0


async def test_a_burst_of_refusals_makes_everybody_wait_as_asked() -> None:
    clock = Clock()
    limiter = Limiter(RateLimits(max_concurrency=16), clock=clock)
    begun = [limiter.slot(1) for _ in range(3)]
    for slot in [await manager.__aenter__() for manager in begun]:
        slot.refused(5.0)
    assert limiter.paused_s == 5
    assert limiter.concurrency == 16
    waiting = asyncio.create_task(outcomes(limiter, served=1))
    await asyncio.sleep(0.01)
    assert (limiter.state.queued, limiter.state.in_flight) == (1, 3)
    clock.now += 6
    await begun[0].__aexit__(None, None, None)
    await waiting
    assert limiter.paused_s == 0


async def test_bursts_that_come_again_at_once_lower_the_concurrency() -> None:
    clock = Clock()
    limiter = Limiter(RateLimits(max_concurrency=16), clock=clock)
    for _ in range(2):
        begun = [limiter.slot(1) for _ in range(3)]
        for slot in [await manager.__aenter__() for manager in begun]:
            slot.refused(5.0)
        clock.now += 6
        for manager in begun:
            await manager.__aexit__(None, None, None)
    assert limiter.concurrency == 8


async def test_a_retry_goes_before_who_waits_already() -> None:
    limiter = Limiter(RateLimits(max_concurrency=1))
    order: list[str] = []

    async def take(name: str, *, urgent: bool = False) -> None:
        async with limiter.slot(1, urgent=urgent):
            order.append(name)
            await asyncio.sleep(0)

    async with limiter.slot(1):
        tasks = [asyncio.create_task(take("first")), asyncio.create_task(take("second"))]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(take("retry", urgent=True)))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == ["retry", "first", "second"]


async def test_rates_hold_tries_back_until_their_time() -> None:
    limits = RateLimits(max_concurrency=100, requests_per_minute=60_000, tokens_per_minute=600_000)
    limiter = Limiter(limits)
    await asyncio.wait_for(asyncio.gather(*(outcomes(limiter, served=1) for _ in range(50))), 30)
    async with limiter.slot(200_000) as slot:
        slot.served(10)
    await asyncio.wait_for(outcomes(limiter, served=3), 30)
    assert (limiter.state.in_flight, limiter.state.queued) == (0, 0)


@pytest.mark.parametrize(
    "limits",
    [RateLimits(requests_per_minute=60), RateLimits(tokens_per_minute=600)],
    ids=["requests", "tokens"],
)
async def test_what_a_rate_grants_at_once_is_followed_by_a_wait(limits: RateLimits) -> None:
    clock = Clock()
    limiter = Limiter(limits, clock=clock)
    tries = [asyncio.create_task(outcomes(limiter, served=1)) for _ in range(100)]
    await asyncio.sleep(0.01)
    at_once = sum(task.done() for task in tries)
    assert at_once == BUCKET_SECONDS
    clock.now += 5
    limiter._wake()
    await asyncio.sleep(0.01)
    assert sum(task.done() for task in tries) == at_once + 5
    for task in tries:
        task.cancel()


async def test_tokens_that_a_reply_did_not_use_are_given_back() -> None:
    clock = Clock()
    limiter = Limiter(RateLimits(tokens_per_minute=600), clock=clock)
    for _ in range(20):
        async with limiter.slot(90) as slot:
            slot.served(0)
    async with limiter.slot(200) as slot:
        slot.served(200)
    waiting = asyncio.create_task(outcomes(limiter, served=1))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    waiting.cancel()
