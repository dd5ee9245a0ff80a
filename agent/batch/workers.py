"""A few threads that evaluate, and their way back into the event loop.

They are daemons, so that a second Ctrl-C ends the process without waiting for an evaluation.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from evaluator import Evaluation


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[], Evaluation]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Evaluation]


class Workers:
    """Runs evaluations, each in a thread of its own turn, first come first served."""

    def __init__(self, count: int) -> None:
        """Start the threads; `close` ends them once they are idle."""
        self._count = count
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        for number in range(count):
            threading.Thread(target=self._serve, name=f"evaluation-{number}", daemon=True).start()

    async def run(self, work: Callable[[], Evaluation]) -> Evaluation:
        """Run one evaluation and wait for it; its exceptions are raised here."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Evaluation] = loop.create_future()
        self._jobs.put(_Job(work, loop, done))
        return await done

    def close(self) -> None:
        """Let every thread end after what it is doing."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            if job.done.cancelled():
                continue
            try:
                result: Evaluation | BaseException = job.work()
            except BaseException as error:  # noqa: BLE001 - carried to the loop, which raises it there
                result = error
            _settle(job, result)


def _settle(job: _Job, result: Evaluation | BaseException) -> None:
    def unless_gone() -> None:
        if job.done.done():
            return
        if isinstance(result, BaseException):
            job.done.set_exception(result)
        else:
            job.done.set_result(result)

    try:
        job.loop.call_soon_threadsafe(unless_gone)
    except RuntimeError:
        # The loop is closed: the process is ending, and what was not recorded is judged on resume.
        return
