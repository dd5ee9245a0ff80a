"""`Evaluator.evaluate`: screens a candidate, reserves a device, and has a referee evaluate it there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from kernelwright.evaluator.analysis.static_checks import screen
from kernelwright.evaluator.backends.registry import check_packages
from kernelwright.evaluator.building.builder import Builder, FullHeaderBuild
from kernelwright.evaluator.building.builds_ahead import BuildsAhead
from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.driver.device_scheduler import DeviceScheduler
from kernelwright.evaluator.driver.evaluation_job import EvaluationJob, OnStage, StageTimer
from kernelwright.evaluator.driver.kernel_process import KernelProcess
from kernelwright.evaluator.driver.measurement_cache import MeasurementCache
from kernelwright.evaluator.driver.policy import CANCEL_CHECK_S, CROWDED_SHARE
from kernelwright.evaluator.driver.problem_inspector import ProblemInspector, flaws_of
from kernelwright.evaluator.driver.processes.runtime_image import RuntimeImage
from kernelwright.evaluator.driver.referee_client import EvaluatorResources, RefereeClient
from kernelwright.evaluator.driver.referee_pool import RefereePool
from kernelwright.evaluator.host.hardware import GpuStates, gpus, resolve_device, resolve_devices
from kernelwright.evaluator.sandbox import Launcher, strongest
from kernelwright.evaluator.schema.candidate import Candidate
from kernelwright.evaluator.schema.config import EvaluationConfig, SandboxTier
from kernelwright.evaluator.schema.evaluation import (
    Build,
    Evaluation,
    Finding,
    Sanitization,
    Stage,
    Status,
)
from kernelwright.evaluator.schema.policy import DETAIL_CHARACTERS, SCORING_RULES
from kernelwright.evaluator.schema.problem import Problem
from kernelwright.evaluator.schema.problem_report import ProblemReport
from kernelwright.evaluator.schema.problem_signature import ProblemSignature
from kernelwright.evaluator.schema.source_version import distribution_version, source_sha

T = TypeVar("T")
_IDLE_REFEREES: Final = 2
"""Warm referees kept for recent problems; each holds a problem's trials and memory of its device."""


class Evaluator:
    """Evaluates candidates; keeps referees of recent problems warm. Usable from any thread."""

    def __init__(self, *, cache: Path | None = None, idle_referees: int = _IDLE_REFEREES) -> None:
        """`cache` holds built libraries and remembered baselines; default `~/.cache/kernelwright`."""
        # Sandboxes bind folders of it, and do not share this process's working directory.
        self._cache = (cache or default_cache()).absolute()
        self._launcher = Launcher()
        self._guard = threading.Lock()
        self._resources: dict[SandboxTier, EvaluatorResources] = {}
        self._referees = RefereePool(idle_referees)
        self._inspectors: dict[tuple[SandboxTier, str, int | None], list[ProblemInspector]] = {}
        self._devices = DeviceScheduler()
        self._closed = False

    def evaluate(
        self,
        problem: Problem,
        candidate: Candidate,
        config: EvaluationConfig | None = None,
        *,
        on_stage: OnStage | None = None,
        stop: CancelToken | None = None,
    ) -> Evaluation:
        """Evaluate one candidate on one problem.

        Raises:
            Cancelled: `stop` was set, by another thread.
            ConfigError: unknown backend, device or shape name.
            ProblemError: the problem does not run here.
            MachineError: no sandbox, compiler, device or disk space, or a package of the backend is missing.
            EvaluatorError: the evaluator itself failed; nothing is scored.
        """
        task = _checked_task(problem, candidate, config)
        stages, stop = StageTimer(on_stage), stop or CancelToken()
        stages.enter(Stage.SCREEN)
        findings = screen(candidate)
        fatal = next((finding for finding in findings if finding.fatal), None)
        on_device = partial(self._evaluate_on, task, stages, stop)
        evaluation = task.rejected(fatal) if fatal else self._on_device(task, stop, on_device)
        return evaluation.model_copy(update={"findings": findings, "stage_seconds": stages.seconds()})

    def _evaluate_on(
        self, task: _Task, stages: StageTimer, stop: CancelToken, device: str, others_evicted: bool
    ) -> Evaluation:
        stages.enter(Stage.OPEN)  # LOAD, BUILD, VERIFY, …, DECIDE: referee/evaluate_candidate.py
        resources = self._resources_of(task.tier)
        states, memory = GpuStates(device), resources.measurements
        states.note("before")

        def announce(stage: Stage) -> None:
            if stage is Stage.ATTRIBUTE:  # timing has just ended
                states.note("after")
            stages.enter(stage)

        job = EvaluationJob(on_stage=announce, stop=stop, others_evicted=others_evicted)
        job.ahead = BuildsAhead.of(resources.builder, task.candidate.source, task.config, device)
        if self._referees.knows(task.referee_key(device)):  # none is to wait for a compiler
            stages.enter(Stage.BUILD)
            job.ahead.wait(lambda: stop.is_set, CANCEL_CHECK_S)
            if (failed := job.ahead.fatal(task.candidate.source)) is not None:
                return task.unbuilt(failed)
            stages.enter(Stage.OPEN)
        with self._referee(task, device, job) as referee:
            answer = referee.evaluate(task.candidate, job)
        return task.evaluation(
            builds=tuple(job.builds),
            environment=referee.environment(states.all()),
            problem_flaws=flaws_of(memory, task.problem, task.config, device, referee.facts.flaws),
            device_seconds=round(job.device_s, 4) if task.config.measure else None,
            output_tail=job.output_tail,
            speedup=answer.speedup,
            **vars(answer),
        )

    def sanitize(
        self, problem: Problem, candidate: Candidate, config: EvaluationConfig | None = None
    ) -> Sanitization:
        """Run the sanitizers on a candidate that passed, whatever `config.sanitize` says of evaluations.

        Its field `convicts` is the status they give it; a tool that is missing or fails is `ran=False`.
        Raises what `evaluate` does.
        """
        task, stop = _checked_task(problem, candidate, config), CancelToken()
        return self._on_device(task, stop, partial(self._sanitize_on, task))

    def _sanitize_on(self, task: _Task, device: str, others_evicted: bool) -> Sanitization:
        job = EvaluationJob(others_evicted=others_evicted)
        with self._referee(task, device, job) as referee:
            answer = referee.sanitize(task.candidate, job)
        return Sanitization.model_validate(answer.sanitization)

    def start_kernel(self, candidate: Candidate, config: EvaluationConfig) -> KernelProcess:
        """Start a sandboxed process for a saved kernel, outside any evaluation.

        Raises:
            ConfigError: unknown backend or device.
            MachineError: no sandbox or device, or a package of the backend is missing.
        """
        check_packages(candidate.backend)
        device = resolve_device(config.device, candidate.backend)
        return KernelProcess(self._resources_of(strongest(config.sandbox)), config, device)

    def build_with_full_headers(self, evaluation: Evaluation) -> FullHeaderBuild:
        """Rebuild an evaluation's libraries with torch's own headers, as other machines will.

        Raises:
            MachineError: no compiler, no sandbox, or a full disk.
        """
        return self._resources_of(strongest(evaluation.config.sandbox)).builder.rebuild(evaluation)

    def inspect(self, problem: Problem, config: EvaluationConfig | None = None) -> ProblemReport:
        """Look for flaws in a problem; those found mark its later scores on this machine.

        Raises:
            ConfigError: unknown device or shape name.
            MachineError: no sandbox or device.
            EvaluatorError: the evaluator itself failed.
        """
        config = config or EvaluationConfig()
        # A problem has no backend: it is inspected where any could be evaluated, on a GPU if there is one.
        device = resolve_device(config.device, "cuda" if gpus() else "cpp")
        with self._inspector(config, device) as inspector:
            return inspector.vet(problem, config)

    def signature(self, problem: Problem, config: EvaluationConfig | None = None) -> ProblemSignature:
        """Describe a problem by its sizes alone; nothing of it is computed. Remembered by content.

        Raises:
            ConfigError: unknown shape name.
            MachineError: no sandbox.
            EvaluatorError: the evaluator itself failed.
        """
        config = config or EvaluationConfig()
        problem.overrides(config.shapes)
        measurements = self._resources_of(strongest(config.sandbox)).measurements
        key = f"description:1:{problem.id}:{problem.sha}:{config.shapes}:{config.dtype}"
        known = measurements.recall(key).get("description")
        if known is not None:
            return ProblemSignature.model_validate(known)
        with self._inspector(config, "cpu") as inspector:
            found = inspector.describe(problem, config)
        measurements.remember(key, {"description": found.model_dump(mode="json")})
        return found

    @contextmanager
    def _inspector(self, config: EvaluationConfig, device: str) -> Iterator[ProblemInspector]:
        """An idle inspector of a device, or a new one."""
        tier = strongest(config.sandbox)
        with self._guard:
            idle = self._inspectors.setdefault((tier, device, config.threads), [])
            inspector = idle.pop() if idle else None
        if inspector is None:
            inspector = ProblemInspector(self._resources_of(tier), device, wanted_threads=config.threads)
        try:
            yield inspector
        finally:
            with self._guard:
                if inspector.usable and not self._closed:
                    idle.append(inspector)
                else:
                    inspector.close()

    def release_gpus(self) -> None:
        """End idle processes that hold memory of a GPU; the next evaluation there starts anew."""
        self._referees.dismiss(lambda device: device != "cpu")
        with self._guard:
            pools = [resources.warm_pools for resources in self._resources.values()]
        for each in pools:
            each.drain_gpus()

    def close(self) -> None:
        """End every process and remove temporary folders."""
        with self._guard:
            self._closed = True
            inspectors = [inspector for group in self._inspectors.values() for inspector in group]
            self._inspectors.clear()
        self._referees.close()
        for inspector in inspectors:
            inspector.close()
        for resources in self._resources.values():
            resources.warm_pools.close()
        self._launcher.close()
        for resources in self._resources.values():
            resources.warm_pools.settle()
            resources.image.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _resources_of(self, tier: SandboxTier) -> EvaluatorResources:
        with self._guard:
            if tier not in self._resources:
                builder = Builder(cache=self._cache / "builds", launcher=self._launcher, tier=tier)
                memory = MeasurementCache(
                    self._cache / "baselines",
                    versions=lambda: f"{source_sha()}:{tier.value}:{builder.toolchain.cxx.identity}",
                )
                self._resources[tier] = EvaluatorResources(
                    self._launcher, builder, RuntimeImage(tier), memory
                )
            return self._resources[tier]

    def _on_device(self, task: _Task, stop: CancelToken, attempt: Callable[[str, bool], T]) -> T:
        """Make an attempt on the least busy device; where its memory is short, again with others evicted."""
        device = self._devices.enter(
            resolve_devices(task.config.device, task.candidate.backend),
            warm=lambda one: self._referees.has(task.referee_key(one)),
            stop=stop,
        )
        try:
            return self._devices.make_fit(
                device,
                partial(attempt, device),
                make_room=lambda: self._referees.dismiss(lambda one: one == device),
                stop=stop,
            )
        finally:
            self._devices.leave(device)

    @contextmanager
    def _referee(self, task: _Task, device: str, job: EvaluationJob) -> Iterator[RefereeClient]:
        """A referee of this problem and policy, for one candidate; kept for the next unless that failed."""
        key = task.referee_key(device)
        idle = self._referees.take(key, device, job.stop)
        referee = idle
        try:
            if referee is None:
                resources = self._resources_of(task.tier)
                referee = RefereeClient(resources, task.problem, task.config, device, job)
                if referee.facts.free_share < CROWDED_SHARE:
                    self._referees.dismiss(lambda one: one == device)
            yield referee
        except BaseException:
            if referee is not None:
                referee.close()
            self._referees.lose(key, opened=idle is None)
            raise
        self._referees.keep(key, referee, opened=idle is None)


def check_ready(backend: str, config: EvaluationConfig) -> None:
    """Raise unless the device, the sandbox and the packages that a backend needs are here.

    Raises:
        ConfigError: unknown backend, or no device's name.
        MachineError: something is missing; the message names the way out.
    """
    check_packages(backend)
    resolve_device(config.device, backend)
    strongest(config.sandbox)


def evaluate(
    problem: Problem,
    candidate: Candidate,
    config: EvaluationConfig | None = None,
    *,
    cache: Path | None = None,
    on_stage: OnStage | None = None,
) -> Evaluation:
    """Evaluate one candidate with an evaluator of its own; see `Evaluator.evaluate` for what it raises."""
    with Evaluator(cache=cache) as evaluator:
        return evaluator.evaluate(problem, candidate, config, on_stage=on_stage)


@dataclass(frozen=True, slots=True)
class _Task:
    """One candidate on one problem under one policy."""

    problem: Problem
    candidate: Candidate
    config: EvaluationConfig

    @property
    def tier(self) -> SandboxTier:
        return strongest(self.config.sandbox)

    def referee_key(self, device: str) -> str:
        """Key of the referees that can evaluate it."""
        return f"{self.problem.sha}:{device}:{self.config.model_dump_json()}"

    # Any: fields of an Evaluation, validated by its constructor.
    def evaluation(self, **fields: Any) -> Evaluation:
        return Evaluation(
            problem=self.problem.id,
            problem_sha=self.problem.sha,
            candidate_sha=self.candidate.sha,
            backend=self.candidate.backend,
            config=self.config,
            evaluator_version=distribution_version(),
            evaluator_sha=source_sha(),
            scoring_rules=SCORING_RULES,
            evaluated_at=datetime.now(UTC).isoformat(timespec="seconds"),
            **fields,
        )

    def rejected(self, fatal: Finding) -> Evaluation:
        where = f" (line {fatal.line})" if fatal.line else ""
        return self.evaluation(status=Status.REJECTED, stage=Stage.SCREEN, detail=fatal.message + where)

    def unbuilt(self, failed: Build) -> Evaluation:
        """The evaluation of a candidate whose module would end at a build that failed."""
        detail = f"RuntimeError: Error building extension '{failed.name}': {failed.log}"
        return self.evaluation(
            status=Status.COMPILE_ERROR,
            stage=Stage.LOAD,
            detail=detail[:DETAIL_CHARACTERS],
            builds=(failed,),
        )


def _checked_task(problem: Problem, candidate: Candidate, config: EvaluationConfig | None) -> _Task:
    """Check packages and shape names before anything is started."""
    config = config or EvaluationConfig()
    check_packages(candidate.backend)
    problem.overrides(config.shapes)
    return _Task(problem, candidate, config)


def default_cache() -> Path:
    """The default folder of builds and remembered measurements."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelwright"
