"""Who is evaluated next: problems that are warm come first, those at work last."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

from kernelwright.agent.runner.evaluation_scheduler import EvaluationScheduler
from kernelwright.evaluator import Evaluation


def _order(count: int, first: str, others: list[str]) -> list[str]:
    """The topics in the order in which they were begun: `first` is held until all others are waiting."""
    begun: list[str] = []
    held = threading.Event()

    def work(topic: str) -> Callable[[], Evaluation]:
        def done() -> Evaluation:
            begun.append(topic)
            if len(begun) == 1:
                held.wait(20)
            return cast(Evaluation, topic)

        return done

    async def run() -> None:
        workers = EvaluationScheduler(count)
        running: list[asyncio.Task[Any]] = [asyncio.ensure_future(workers.run(first, work(first)))]
        while not begun:
            await asyncio.sleep(0.01)
        running += [asyncio.ensure_future(workers.run(topic, work(topic))) for topic in others]
        await asyncio.sleep(0.1)
        held.set()
        assert await asyncio.gather(*running) == [first, *others]
        workers.close()

    asyncio.run(run())
    return begun


def test_a_problem_of_late_comes_before_those_that_came_earlier():
    assert _order(1, "a", ["b", "c", "a"]) == ["a", "a", "b", "c"]


def test_first_come_first_served_among_strangers():
    assert _order(1, "a", ["d", "b", "c"]) == ["a", "d", "b", "c"]


def test_a_problem_at_work_is_left_to_whoever_works_on_it():
    assert _order(2, "a", ["a", "b", "c"])[:2] == ["a", "b"]
