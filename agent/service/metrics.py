"""What Prometheus is told of a service."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 900)


class ServiceMetrics:
    """Counters and gauges of one service. Usable from any thread."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, *, queued: Callable[[], int], running: Callable[[], int]) -> None:
        """The functions are asked whenever somebody looks."""
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._submissions = Counter(
            "kernelwright_submissions",
            "Submissions, by what became of them.",
            ["taken"],
            registry=self._registry,
        )
        self._evaluations = Counter(
            "kernelwright_evaluations", "Evaluations that ended, by how.", ["end"], registry=self._registry
        )
        self._seconds = Histogram(
            "kernelwright_evaluation_seconds",
            "Wall time of evaluations in a worker's hands.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._answers = Counter(
            "kernelwright_answers", "HTTP answers, by status code.", ["code"], registry=self._registry
        )
        queue = Gauge("kernelwright_queued", "Evaluations that wait.", registry=self._registry)
        queue.set_function(queued)
        work = Gauge("kernelwright_running", "Evaluations in the hands of workers.", registry=self._registry)
        work.set_function(running)

    def submitted(self, taken: str) -> None:
        """Count a submission: `accepted`, `joined`, `known` or `turned away`."""
        self._submissions.labels(taken).inc()

    def ended(self, end: str, seconds: float | None = None) -> None:
        """Count an evaluation by its status, or as `cancelled` or `failed: KIND`."""
        self._evaluations.labels(end).inc()
        if seconds is not None:
            self._seconds.observe(seconds)

    def answered(self, code: int) -> None:
        """Count an HTTP answer."""
        self._answers.labels(str(code)).inc()

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)
