"""Limits the requests in flight: a concurrency that adapts to refusals, and token buckets.

Every try of a request takes a slot here, so 429s are seen one by one. Nothing here knows HTTP.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kernelwright.agent.providers.policy import BUCKET_SECONDS, REFUSALS_BEFORE_PAUSE, TOLERATED_REFUSALS


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Limits of a provider; None means unlimited."""

    max_concurrency: int = 64
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


@dataclass(frozen=True, slots=True)
class ProviderState:
    """Current load of a provider."""

    in_flight: int
    """Tries under way."""
    queued: int
    """Tries that wait for their turn."""
    concurrency: int
    """Tries the endpoint gets at once; falls while it says that we ask too much."""
    paused_s: float
    """Seconds that nobody is asked, because the endpoint wants it so; 0 when others go on."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """A try brought no reply, and another follows."""

    provider: str
    model: str
    problem: str
    message: str
    seconds: float
    """Until the next try."""
    state: ProviderState

    @property
    def lasts_s(self) -> float:
        """Seconds until something is asked again."""
        return max(self.seconds, self.state.paused_s)


class TokenBucket:
    """A rate that refills; it may go into debt once, so that no request is too large for it."""

    def __init__(self, per_minute: float, clock: Callable[[], float]) -> None:
        self._per_second = per_minute / 60.0
        self._clock = clock
        self._scale = 1.0
        self._level = max(1.0, self._per_second * BUCKET_SECONDS)
        self._filled_at = clock()

    def wait_s(self) -> float:
        """Seconds until something may be taken; 0 when it may be now."""
        self._fill()
        rate = self._per_second * self._scale
        return 0.0 if self._level > 0 else max(1e-3, -self._level / rate)

    def take(self, amount: float) -> None:
        """Take, or with a negative amount give back."""
        self._fill()
        self._level -= amount

    def slow_down(self) -> None:
        """Lower the rate after refusals, to a tenth of the configured one at least."""
        self._fill()
        self._scale = max(0.1, self._scale * 0.8)

    def speed_up(self) -> None:
        """Raise the rate towards the configured one."""
        self._fill()
        self._scale = min(1.0, self._scale + 0.05)

    def _fill(self) -> None:
        now = self._clock()
        rate = self._per_second * self._scale
        full = max(1.0, rate * BUCKET_SECONDS)
        self._level = min(full, self._level + (now - self._filled_at) * rate)
        self._filled_at = now


@dataclass(slots=True)
class Slot:
    """Permission for one try; says afterwards how the endpoint took it."""

    _limiter: Limiter
    _generation: int
    _tokens: int
    _began_at: float

    def served(self, tokens: int) -> None:
        """The endpoint answered; `tokens` is what the reply really used."""
        self._limiter._served(self._began_at, self._tokens - tokens)

    def refused(self, retry_after_s: float | None) -> None:
        """The endpoint answered 429."""
        self._limiter._refused(self._generation, retry_after_s)


@dataclass(slots=True)
class _QueuedTry:
    tokens: int
    granted: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Limiter:
    """Slots for one provider, on one event loop.

    Additive increase, multiplicative decrease, decided over windows of half the concurrency: when more than
    `TOLERATED_REFUSALS` of it were 429s the concurrency falls by that share, at most to half; otherwise it
    rises, by an eighth of the way to where it fell last. Refusals of tries that began before a fall are not
    held against it twice. A burst of refusals that ask for a wait gets the wait, and lowers nothing unless it
    comes again soon; replies to tries that began before the burst do not interrupt it.
    """

    def __init__(self, limits: RateLimits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._max = float(max(1, limits.max_concurrency))
        self._limit = self._ceiling = self._max
        rates = (limits.requests_per_minute, limits.tokens_per_minute)
        self._requests, self._tokens = (
            None if rate is None else TokenBucket(max(rate, 1e-6), clock) for rate in rates
        )
        self._waiters: deque[_QueuedTry] = deque()
        self._in_flight = 0
        self._generation = 0
        self._window_served = self._window_refused = self._refused_in_a_row = 0
        self._served_since_pause = self._max
        self._burst_began_at = 0.0
        self._paused_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def concurrency(self) -> int:
        """Tries allowed at once, now."""
        return int(self._limit)

    @property
    def paused_s(self) -> float:
        """Seconds that remain of a pause the endpoint asked for; 0 when there is none."""
        return max(0.0, self._paused_until - self._clock())

    @property
    def state(self) -> ProviderState:
        return ProviderState(
            in_flight=self._in_flight,
            queued=sum(not waiter.granted.done() for waiter in self._waiters),
            concurrency=self.concurrency,
            paused_s=self.paused_s,
        )

    @asynccontextmanager
    async def slot(self, tokens: int, *, urgent: bool = False) -> AsyncIterator[Slot]:
        """Wait for permission to send about `tokens` tokens; urgent ones (retries) overtake who waits."""
        generation = await self._acquire(tokens, urgent=urgent)
        try:
            yield Slot(self, generation, tokens, self._clock())
        finally:
            self._in_flight -= 1
            self._wake()

    async def _acquire(self, tokens: int, *, urgent: bool) -> int:
        waiter = _QueuedTry(tokens)
        (self._waiters.appendleft if urgent else self._waiters.append)(waiter)
        self._wake()
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self._in_flight -= 1
            waiter.granted.cancel()
            self._wake()
            raise

    def _wake(self) -> None:
        while self._waiters:
            if self._waiters[0].granted.done():
                self._waiters.popleft()
                continue
            if self._in_flight >= self.concurrency:
                return
            wait_s = max([self.paused_s, *(bucket.wait_s() for bucket in self._buckets())])
            if wait_s > 0:
                if self._timer:
                    self._timer.cancel()
                self._timer = asyncio.get_running_loop().call_later(wait_s, self._wake)
                return
            waiter = self._waiters.popleft()
            self._in_flight += 1
            if self._requests:
                self._requests.take(1)
            if self._tokens:
                self._tokens.take(waiter.tokens)
            waiter.granted.set_result(self._generation)

    def _buckets(self) -> list[TokenBucket]:
        return [bucket for bucket in (self._requests, self._tokens) if bucket]

    def _served(self, began_at: float, unused_tokens: int) -> None:
        if self._tokens:
            self._tokens.take(-unused_tokens)
        if began_at > self._burst_began_at:
            self._refused_in_a_row = 0
        self._served_since_pause += 1
        self._window_served += 1
        self._review()

    def _refused(self, generation: int, retry_after_s: float | None) -> None:
        if self._refused_in_a_row == 0:
            self._burst_began_at = self._clock()
        self._refused_in_a_row += 1
        if retry_after_s and self._refused_in_a_row >= max(3.0, self._limit * REFUSALS_BEFORE_PAUSE):
            self._pause(generation, retry_after_s)
        elif generation == self._generation and not self.paused_s:
            self._window_refused += 1
            self._review()

    def _pause(self, generation: int, wait_s: float) -> None:
        began = self.paused_s == 0
        self._paused_until = max(self._paused_until, self._clock() + wait_s)
        if began and generation == self._generation:
            if self._served_since_pause < self._limit / 2:
                self._fall(0.5)
            self._window_refused = 0
            self._served_since_pause = 0

    def _review(self) -> None:
        seen = self._window_served + self._window_refused
        if seen < max(10.0, self._limit / 2):
            return
        share = self._window_refused / seen
        if share > TOLERATED_REFUSALS:
            self._fall(min(share, 0.5))
        else:
            step = max(1.0, abs(self._ceiling - self._limit) / 8)
            self._limit = min(self._max, self._limit + step)
            for bucket in self._buckets():
                bucket.speed_up()
        self._window_served = self._window_refused = 0

    def _fall(self, share: float) -> None:
        self._ceiling = self._limit
        self._limit = max(1.0, self._limit * (1.0 - share))
        self._generation += 1
        for bucket in self._buckets():
            bucket.slow_down()
