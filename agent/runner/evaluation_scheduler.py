"""Chooses which evaluation or build runs next, and runs it in a thread; results go to the event loop.

The threads are daemons, so that a second Ctrl-C ends the process without waiting for one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Job:
    topic: str
    work: Callable[[], Any]  # Any: `run` gives its caller the type of its own work
    done: Future[Any]


class EvaluationScheduler:
    """Orders work on problems, and runs it in a fixed number of threads.

    An opened problem serves one evaluation at a time and stays open for a while: recently evaluated problems
    come first, those being evaluated last, otherwise in order of arrival.
    """

    def __init__(self, count: int) -> None:
        self._changed = threading.Condition()
        self._jobs: list[_Job] = []
        self._running: Counter[str] = Counter()
        self._recent: list[str] = []
        self._remembered = max(2, count)
        self._closed = False
        for number in range(count):
            threading.Thread(target=self._serve, name=f"evaluation-{number}", daemon=True).start()

    async def run(self, topic: str, work: Callable[[], Result]) -> Result:
        """Run one evaluation or build of a problem and wait for it; its exceptions are raised here."""
        done: Future[Result] = Future()
        with self._changed:
            self._jobs.append(_Job(topic, work, done))
            self._changed.notify()
        return await asyncio.wrap_future(done)

    def close(self) -> None:
        """End every thread once the waiting jobs are done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            error: BaseException | None = None
            result: object = None
            try:
                result = job.work()
            except BaseException as raised:  # noqa: BLE001 - carried to the loop, which raises it there
                error = raised
            with self._changed:
                self._running[job.topic] -= 1
                self._recent = [*(each for each in self._recent if each != job.topic), job.topic]
                del self._recent[: -self._remembered]
            if error is not None:
                job.done.set_exception(error)
            else:
                job.done.set_result(result)

    def _next(self) -> _Job | None:
        with self._changed:
            while True:
                while self._jobs:
                    job = min(self._jobs, key=self._order)
                    self._jobs.remove(job)
                    # False where whoever waited for it has been cancelled.
                    if job.done.set_running_or_notify_cancel():
                        self._running[job.topic] += 1
                        return job
                if self._closed:
                    return None
                self._changed.wait()

    def _order(self, job: _Job) -> tuple[bool, bool]:
        return self._running[job.topic] > 0, job.topic not in self._recent
