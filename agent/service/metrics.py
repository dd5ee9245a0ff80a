"""Metrics of a service: counters for Prometheus, and the rate at which evaluations end."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from statistics import fmean

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from kernelwright.agent.service.policy import (
    FIRST_RETRY_S,
    LONGEST_RETRY_S,
    RECENT_EVALUATIONS,
    SHORTEST_RETRY_S,
)

_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 900)


class ServiceMetrics:
    """Counters and gauges of one service. Usable from any thread."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, *, queued: Callable[[], int], running: Callable[[], int]) -> None:
        """The functions are called at every scrape."""
        self._registry = known = CollectorRegistry()
        ProcessCollector(registry=known)
        self.submissions = Counter(
            "kernelwright_submissions", "Submissions, by their result.", ["taken"], registry=known
        )
        """By `accepted`, `joined`, `known` or `turned away`."""
        self.evaluations = Counter(
            "kernelwright_evaluations", "Evaluations that ended, by status.", ["end"], registry=known
        )
        """By status, or as `cancelled` or `failed: KIND`."""
        self.evaluation_s = Histogram(
            "kernelwright_evaluation_seconds",
            "Wall time of evaluations by workers.",
            buckets=_SECONDS,
            registry=known,
        )
        self.answers = Counter(
            "kernelwright_answers", "HTTP answers, by status code.", ["code"], registry=known
        )
        Gauge("kernelwright_queued", "Evaluations that wait.", registry=known).set_function(queued)
        Gauge("kernelwright_running", "Evaluations at work.", registry=known).set_function(running)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class DrainRate:
    """Estimates when a refused caller may find a place."""

    def __init__(self, workers: int) -> None:
        self._workers = max(1, workers)
        self._seconds: deque[float] = deque(maxlen=RECENT_EVALUATIONS)
        self._turned_away = 0

    def ended(self, seconds: float) -> None:
        """Note the seconds of an evaluation that ended; a place is free."""
        self._seconds.append(seconds)
        self._turned_away = 0

    def retry_after_s(self) -> int:
        """Estimate seconds until the caller refused now may find a place; more for each further one."""
        self._turned_away += 1
        if not self._seconds:
            return FIRST_RETRY_S
        wait_s = fmean(self._seconds) / self._workers * self._turned_away
        return min(max(math.ceil(wait_s), SHORTEST_RETRY_S), LONGEST_RETRY_S)
