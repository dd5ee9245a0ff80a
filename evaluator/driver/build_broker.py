"""Serves builds that a worker asked for through its referee, while the device is free for others."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from kernelwright.evaluator.analysis.cubin_resources import read_resources
from kernelwright.evaluator.analysis.sanitizers import ADDRESS, SanitizerRun
from kernelwright.evaluator.building.build_request import (
    BuildOutcome,
    BuildRequest,
    InvalidRequest,
    parse_request,
)
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.driver.evaluation_job import EvaluationJob
from kernelwright.evaluator.driver.processes.process_launcher import WorkerHandle
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.host.hardware import gpu_of
from kernelwright.evaluator.ipc.driver_requests import BuildFinished, BuildLibrary
from kernelwright.evaluator.schema.evaluation import Stage

_ASIDE = ("sanitized", "counted", "timed")
"""Roles of processes that build what the candidate has built already."""


@dataclass(frozen=True, slots=True)
class BuildBroker:
    """Builds for the workers of one referee."""

    builder: Builder
    device: str
    lock: DeviceLock
    timeout_s: float

    def build(self, request: BuildLibrary, worker: WorkerHandle, job: EvaluationJob) -> BuildFinished:
        """Build what a worker asked for, if it does not have it already."""
        try:
            wanted = parse_request(request.request)
        except InvalidRequest as error:
            return BuildFinished(ok=False, log=f"not a valid build: {error}")
        known = worker.supply.recall(request.request)
        if known is not None:
            return known
        wanted = wanted.model_copy(update={"full_headers": wanted.full_headers or job.full_headers})
        if worker.role not in _ASIDE:
            job.on_stage(Stage.BUILD)
        outcome, waited_s = self._built(wanted, worker)
        library = outcome.shared_object
        job.extend(waited_s)
        if worker.role not in _ASIDE:
            job.enter(job.stage)
            build = job.ahead.as_built(outcome.build) if job.ahead is not None else outcome.build
            resources = read_resources(library) if library else ()
            job.record(build.model_copy(update={"resources": resources}))
        if isinstance(worker.watch, SanitizerRun) and library is not None:
            worker.watch.libraries.append(library)
            worker.watch.sources.update(outcome.sources)
        answer = worker.supply.hand_over(request.request, outcome)
        return replace(answer, waited_s=waited_s, build_s=outcome.build.seconds)

    def _built(self, wanted: BuildRequest, worker: WorkerHandle) -> tuple[BuildOutcome, float]:
        """A build, and the seconds waited for it or for the device, which others may have while it runs."""
        gpu, held, asked = gpu_of(self.device), self.lock.held, time.monotonic()
        if self.device != "cpu" and not self.lock.is_preemptible:
            self.lock.release()
        elif held != "tools":  # which is a share as well, and would have to be waited for again
            self.lock.share()  # on a GPU, so that what asked for it is stopped while others time
        began = time.monotonic()
        try:
            outcome = self.builder.build(
                wanted,
                architecture=gpu.architecture if gpu else None,
                timeout_s=self.timeout_s,
                instrumented=isinstance(worker.watch, SanitizerRun) and worker.watch.tool == ADDRESS,
            )
        finally:
            ended = time.monotonic()
            self.lock.restore(held)
        return outcome, began - asked + outcome.waited_s + time.monotonic() - ended
