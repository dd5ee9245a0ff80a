"""The stock of processes started ahead, with real ones."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from kernelwright.evaluator.analysis.sanitizers import SanitizerRun, Sanitizers
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.driver.processes.process_launcher import ProcessLauncher, WorkerHandle
from kernelwright.evaluator.driver.processes.runtime_image import RuntimeImage
from kernelwright.evaluator.driver.processes.warm_pool import WarmPool, WarmPools
from kernelwright.evaluator.sandbox import Launcher, strongest
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import MachineError


@pytest.fixture(scope="module")
def starter() -> Iterator[ProcessLauncher]:
    image = RuntimeImage(strongest(None))
    with Launcher() as launcher:
        yield ProcessLauncher(
            launcher=launcher,
            image=image,
            config=EvaluationConfig(),
            device="cpu",
            threads=1,
            builder=cast(Builder, None),
        )
    image.close()


def test_each_is_handed_over_once_and_the_dead_never(starter: ProcessLauncher) -> None:
    spares = WarmPool(starter.start_ahead, stock=2)
    spares.replenish()
    first = spares.take(wait=True)
    assert first is not None
    assert first.is_set_up
    second = spares.take(wait=True)
    assert second is not None
    assert second.number != first.number
    assert spares.take(wait=True) is None
    for launched in (first, second):
        launched.discard()
        assert not launched.supply.folder.exists()
    spares.close()


def test_what_is_expected_is_started_at_once_and_only_once(
    starter: ProcessLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    gate, begun = threading.Event(), threading.Semaphore(0)

    def make() -> WorkerHandle:
        begun.release()
        gate.wait()
        raise MachineError("none today")

    def beginning(count: int) -> bool:
        """Whether that many begin, and no more."""
        return all(begun.acquire(timeout=10) for _ in range(count)) and not begun.acquire(timeout=0.1)

    spares = WarmPool(make, stock=1)
    spares.expect(2)
    assert beginning(3)
    spares.expect(9)
    assert beginning(0), "half the cores are at work already"
    gate.set()
    assert all(spares.take(wait=True) is None for _ in range(11))
    spares.settle()
    spares.replenish()
    assert beginning(1), "the stock alone, once all that was expected has been asked for"
    spares.close()


def test_one_that_died_waiting_is_passed_over(starter: ProcessLauncher) -> None:
    spares = WarmPool(starter.start_ahead, stock=1)
    spares.replenish()
    dead = spares.take(wait=True)
    assert dead is not None
    dead.sandboxed.kill()
    again = WarmPool(lambda: dead, stock=1)
    again.replenish()
    assert again.take(wait=True) is None
    spares.close()


def test_what_cannot_be_started_is_left_to_whoever_needs_it() -> None:
    def fail() -> WorkerHandle:
        raise MachineError("no sandbox")

    spares = WarmPool(fail, stock=1)
    spares.replenish()
    assert spares.take(wait=True) is None


def test_closing_ends_what_is_still_starting(starter: ProcessLauncher) -> None:
    begun, go_on, made = threading.Event(), threading.Event(), []

    def slowly() -> WorkerHandle:
        begun.set()
        go_on.wait(10)
        made.append(starter.start("candidate"))
        return made[0]

    spares = WarmPool(slowly, stock=1)
    spares.replenish()
    assert begun.wait(10)
    spares.close()
    go_on.set()
    assert spares.take(wait=True) is None
    while not made or made[0].sandboxed.poll() is None:
        threading.Event().wait(0.01)


def test_processes_under_a_tool_are_kept_apart_and_closed_with_their_reports(
    starter: ProcessLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that nobody took leaves no descriptor open."""
    made: list[tuple[str, str | None]] = []
    start = ProcessLauncher.start

    def noted(self: ProcessLauncher, role: str, *, tool: str) -> WorkerHandle:
        made.append((role, tool))
        handle = start(self, role)
        handle.watch = SanitizerRun(Sanitizers(None, ()), "memcheck")
        return handle

    monkeypatch.setattr(ProcessLauncher, "start", noted)
    pools = WarmPools()
    pool = pools.of_tool(starter, "memcheck")
    assert pools.of_tool(starter, "memcheck") is pool
    assert pools.of_tool(starter, "racecheck") is not pool
    pool.expect(0)
    ready = pool.take(wait=True)
    assert ready is not None
    assert made == [("sanitized", "memcheck")]
    assert isinstance(ready.watch, SanitizerRun)
    log = ready.watch.log
    ready.discard()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(log)
    pools.close()
    pools.settle()
