"""The driver's side of an evaluation: its records, and a handler for every request of a referee."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernelwright.evaluator.driver.build_broker import BuildBroker
from kernelwright.evaluator.driver.evaluation_job import EvaluationJob
from kernelwright.evaluator.driver.measurement_cache import FactMemory
from kernelwright.evaluator.driver.referee_client import request_handlers
from kernelwright.evaluator.driver.worker_service import WorkerService
from kernelwright.evaluator.host import trace
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.ipc import driver_requests
from kernelwright.evaluator.ipc.driver_requests import DriverRequest
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import EvaluatorError, MachineError
from kernelwright.evaluator.schema.evaluation import Build
from tests.messages import check_handlers, kinds_in

NOTHING = cast(Any, None)


def _build(*, ok: bool) -> Build:
    return Build(name="ext", key="", tier="full", cached=False, seconds=0.0, ok=ok)


def test_all_builds_are_recorded_but_only_the_first_of_those_that_failed() -> None:
    job = EvaluationJob(on_stage=lambda stage: None)
    for _ in range(100):
        job.record(_build(ok=False))
        job.record(_build(ok=True))
    assert (len(job.builds), sum(build.ok for build in job.builds)) == (164, 100)


def test_every_request_but_an_inspections_own_has_one_handler() -> None:
    workers, memory = WorkerService(*[NOTHING] * 6), FactMemory(NOTHING, "cpu", 1)
    table = request_handlers(EvaluationJob(on_stage=print), workers, memory)
    assert set(table) | {driver_requests.Begin} == kinds_in(driver_requests, DriverRequest)
    check_handlers(table)


def test_a_process_that_was_never_started_is_not_there() -> None:
    with pytest.raises(EvaluatorError, match="process 7, which it never started"):
        WorkerService(*[NOTHING] * 6).freeze(driver_requests.Freeze(id=7))


def test_time_that_is_used_up_is_noted_once_and_waiting_buys_more() -> None:
    job = EvaluationJob(on_stage=lambda stage: None)
    assert not job.has_run_out()
    job.start_clock(-1.0)
    job.extend(3600.0)
    assert not job.has_run_out()
    job.extend(-3600.0)
    assert job.has_run_out()
    assert job.timed_out
    assert not job.has_run_out()


class _Work:
    """Work on a device that notes whether it may run."""

    def __init__(self) -> None:
        self.running = True

    def pause(self) -> None:
        self.running = False

    def go_on(self) -> None:
        self.running = True


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[DeviceLock, _Work]]:
    """A lock by which work shares a GPU, and that work."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("kernelwright.evaluator.host.shared_claim.SHARED_SLICE_S", 0.0)
    work = _Work()
    monkeypatch.setattr("kernelwright.evaluator.driver.build_broker.gpu_of", lambda device: None)
    lock = DeviceLock("cuda:0", wait_s=2, pausable=work)
    lock.share()
    yield lock, work
    lock.close()


def test_what_asked_for_a_build_is_stopped_while_others_time(shared: tuple[DeviceLock, _Work]) -> None:
    """It runs on while its library is built, and may use the device from another thread."""
    lock, work = shared
    seen: list[bool] = []

    def build(*request: object, **options: object) -> Any:
        other = DeviceLock("cuda:0", wait_s=20)
        other.hold_alone()
        seen.append(work.running)
        other.close()
        return SimpleNamespace(waited_s=0.0)

    broker = BuildBroker(cast(Any, SimpleNamespace(build=build)), "cuda:0", lock, 1.0)
    broker._built(NOTHING, cast(Any, SimpleNamespace(watch=None)))
    assert seen == [False]
    assert lock.held == "shared"


def test_work_that_can_be_paused_shares_anew_without_a_gap(shared: tuple[DeviceLock, _Work]) -> None:
    lock, work = shared
    workers = WorkerService(NOTHING, NOTHING, NOTHING, lock, NOTHING, NOTHING)
    other = DeviceLock("cuda:0", wait_s=20)
    other.hold_alone()
    workers.hold(driver_requests.Hold(exclusive=False, anew=True), EvaluationJob(on_stage=print))
    assert not work.running
    other.close()


def test_a_build_under_a_tool_keeps_others_from_theirs(shared: tuple[DeviceLock, _Work]) -> None:
    """Given back, the turn would have to be waited for again, while the candidate's time runs."""
    lock, _ = shared
    lock.hold_for_tools()
    other = DeviceLock("cuda:0", wait_s=0.2)

    def build(*request: object, **options: object) -> Any:
        with pytest.raises(MachineError, match="waited"):
            other.hold_for_tools()
        return SimpleNamespace(waited_s=0.0)

    broker = BuildBroker(cast(Any, SimpleNamespace(build=build)), "cuda:0", lock, 1.0)
    broker._built(NOTHING, cast(Any, SimpleNamespace(watch=None)))
    assert lock.held == "tools"
    other.close()


def test_who_times_after_tools_waits_for_them_and_others_do_not(shared: tuple[DeviceLock, _Work]) -> None:
    lock, work = shared
    lock.hold_for_tools()
    for after_tools in (False, True):
        workers = WorkerService(NOTHING, NOTHING, NOTHING, DeviceLock("cuda:0", wait_s=1), NOTHING, NOTHING)
        job = EvaluationJob(on_stage=print)
        request = driver_requests.Hold(exclusive=True, anew=False, after_tools=after_tools)
        if after_tools:
            with pytest.raises(MachineError, match="tools"):
                workers.hold(request, job)
        else:
            assert workers.hold(request, job).waited_s < 0.9
            assert not work.running
        workers.lock.close()


class _Pauses:
    """Pauses that have lasted longer at each look."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds)

    @property
    def paused_s(self) -> float:
        return self._seconds.pop(0)


def test_pauses_while_it_waits_for_its_turn_under_a_tool_are_counted_once(
    shared: tuple[DeviceLock, _Work],
) -> None:
    lock, _ = shared
    workers = WorkerService(NOTHING, NOTHING, NOTHING, lock, cast(Any, _Pauses(0.0, 1000.0)), NOTHING)
    held = workers.hold_for_tools(driver_requests.HoldForTools(), EvaluationJob(on_stage=print))
    assert (held.waited_s, lock.held) == (0.0, "tools")


def test_steps_of_a_referee_are_spans_of_the_trace(tmp_path: Path) -> None:
    workers = WorkerService(*[NOTHING] * 6)
    job = EvaluationJob(on_stage=print)
    memory = FactMemory(NOTHING, "cpu", 1)
    record = request_handlers(job, workers, memory, "referee of a 1")[driver_requests.RecordStep]
    trace.begin(tmp_path / "trace.json")
    try:
        record(driver_requests.RecordStep(name="compare", seconds=2.0))
    finally:
        trace.end()
    written = (tmp_path / "trace.json").read_text()
    assert "steps of referee of a 1" in written
    (span,) = (json.loads(line.rstrip(",")) for line in written.splitlines() if '"ph": "X"' in line)
    assert (span["name"], span["dur"] // 10_000) == ("compare", 200)


class _Pool:
    """A pool that hands over the same process, and notes what was asked of it."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self._name, self._asked = name, asked

    def expect(self, count: int) -> None:
        self._asked.append(f"{self._name} expects {count}")

    def take(self, *, wait: bool) -> Any:
        self._asked.append(f"{self._name} gives")
        return SimpleNamespace(number=7, is_set_up=True, channel_end=None)

    def replenish(self) -> None:
        pass


def _starting(device: str, asked: list[str]) -> WorkerService:
    def start(role: str, *, threads: int | None, tool: str | None) -> Any:
        asked.append(f"started for {role}")
        return SimpleNamespace(number=7, is_set_up=False, channel_end=None)

    launcher = SimpleNamespace(device=device, config=EvaluationConfig(), start=start)
    pools = _Pool("plain", asked), lambda tool: _Pool(tool, asked)
    return WorkerService(
        cast(Any, launcher), *cast(Any, pools), DeviceLock(device, wait_s=1), NOTHING, NOTHING
    )


@pytest.mark.parametrize(
    ("device", "role", "tool", "done"),
    [
        ("cuda:0", "candidate", None, ["plain gives"]),
        ("cuda:0", "sanitized", None, ["plain gives"]),
        ("cuda:0", "sanitized", "racecheck", ["racecheck expects 1", "racecheck gives"]),
        ("cuda:0", "counted", "ncu", ["started for counted"]),
        ("cpu", "sanitized", None, ["started for sanitized"]),
        ("cpu", "sanitized", "address", ["started for sanitized"]),
    ],
)
def test_a_process_comes_from_the_pool_of_its_kind(
    device: str, role: Any, tool: str | None, done: list[str]
) -> None:
    """One under a tool is expected as it is taken: of two who wait, neither waits for the other's."""
    asked: list[str] = []
    workers = _starting(device, asked)
    workers.start(driver_requests.Start(role=role, tool=tool), EvaluationJob(on_stage=print))
    workers.lock.close()
    assert asked == done


def test_a_candidates_time_begins_with_its_process_and_not_with_the_baselines() -> None:
    job = EvaluationJob(on_stage=print)
    workers = _starting("cuda:0", [])
    workers.start(driver_requests.Start(role="baseline"), job)
    assert job.deadline == float("inf")
    workers.start(driver_requests.Start(role="candidate"), job)
    assert job.deadline <= time.monotonic() + EvaluationConfig().limits.total_s
    workers.lock.close()
