"""The driver's side of an evaluation: its records, and a handler for every request of a referee."""

from __future__ import annotations

from typing import Any, cast

from kernelwright.evaluator.driver.build_broker import BuildBroker
from kernelwright.evaluator.driver.evaluation_job import EvaluationJob
from kernelwright.evaluator.driver.measurement_cache import FactMemory
from kernelwright.evaluator.driver.referee_client import RequestHandlers
from kernelwright.evaluator.driver.worker_service import WorkerService
from kernelwright.evaluator.ipc import driver_requests
from kernelwright.evaluator.ipc.driver_requests import DriverRequest
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
    workers = WorkerService(NOTHING, NOTHING, NOTHING)
    builds = BuildBroker(NOTHING, "cpu", NOTHING, 1.0)
    memory = FactMemory(NOTHING, "cpu", 1)
    table = RequestHandlers(EvaluationJob(on_stage=print), workers, builds, NOTHING, memory).table()
    assert set(table) | {driver_requests.Begin} == kinds_in(driver_requests, DriverRequest)
    check_handlers(table)
