"""`evaluate()`: the stages from screening to decision, and the referees that carry them out."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from kernelwright.evaluator.analysis.static_checks import screen
from kernelwright.evaluator.backends.registry import check_packages
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.building.full_header_check import FullHeaderBuild, rebuild
from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.driver.device_scheduler import DeviceScheduler
from kernelwright.evaluator.driver.evaluation_job import EvaluationJob
from kernelwright.evaluator.driver.measurement_cache import MeasurementCache
from kernelwright.evaluator.driver.problem_inspector import ProblemInspector, flaws_of
from kernelwright.evaluator.driver.processes.runtime_image import RuntimeImage
from kernelwright.evaluator.driver.referee_client import EvaluatorResources, RefereeClient
from kernelwright.evaluator.driver.referee_pool import RefereePool
from kernelwright.evaluator.driver.stage_timer import OnStage, StageTimer
from kernelwright.evaluator.host.gpu_state import GpuStates
from kernelwright.evaluator.host.hardware import (
    cpu_name,
    gpu_of,
    gpus,
    resolve_device,
    resolve_devices,
    threads,
    wait_policy,
)
from kernelwright.evaluator.ipc.referee_messages import CandidateEvaluated
from kernelwright.evaluator.sandbox import Launcher, strongest
from kernelwright.evaluator.schema.candidate import Candidate
from kernelwright.evaluator.schema.config import EvaluationConfig, SandboxTier
from kernelwright.evaluator.schema.errors import DeviceFull
from kernelwright.evaluator.schema.evaluation import Environment, Evaluation, Sanitization, Stage, Status
from kernelwright.evaluator.schema.problem import Problem
from kernelwright.evaluator.schema.problem_report import ProblemReport
from kernelwright.evaluator.schema.problem_signature import ProblemSignature
from kernelwright.evaluator.schema.source_version import distribution_version, source_sha

_IDLE_REFEREES = 2
_BUILDS = "cpp_extension"  # a source that names torch's builder will need what fast builds need


class Evaluator:
    """Judges candidates; keeps referees of recent problems warm. Usable from any thread."""

    def __init__(self, *, cache: Path | None = None, idle_referees: int = _IDLE_REFEREES) -> None:
        """`cache` holds built libraries and remembered baselines; default `~/.cache/kernelwright`."""
        # Sandboxes bind folders of it, and know no working directory of ours.
        self._cache = (cache or default_cache()).absolute()
        self._launcher = Launcher()
        self._guard = threading.Lock()
        self._workshops: dict[SandboxTier, EvaluatorResources] = {}
        self._idle = RefereePool(idle_referees)
        self._inspectors: dict[tuple[SandboxTier, str, int | None], list[ProblemInspector]] = {}
        self._crowd = DeviceScheduler()
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
        """Judge one candidate on one problem.

        Raises:
            Stopped: `stop` was set, by another thread.
            ConfigError: unknown backend, device or shape name.
            ProblemError: the problem does not run here.
            MachineError: no sandbox, compiler, device or disk space, or a package of the backend is missing.
            EvaluatorError: the evaluator itself failed; nothing is scored.
        """
        config = config or EvaluationConfig()
        stages = StageTimer(on_stage)
        check_packages(candidate.backend)
        problem.overrides(config.shapes)
        stages.enter(Stage.SCREEN)
        findings = screen(candidate)
        fatal = next((finding for finding in findings if finding.fatal), None)
        if fatal is not None:
            where = f" (line {fatal.line})" if fatal.line else ""
            return _evaluation(
                problem,
                candidate,
                config,
                status=Status.REJECTED,
                stage=Stage.SCREEN,
                detail=fatal.message + where,
                findings=findings,
                stage_seconds=stages.seconds(),
            )
        job = EvaluationJob(on_stage=stages.enter, stop=stop or CancelToken())
        device = self._crowd.enter(
            resolve_devices(config.device, candidate.backend),
            warm=lambda one: self._idle.has(_key(problem, config, one)),
            stop=job.stop,
        )
        try:
            stages.enter(Stage.OPEN)
            judged = self._judged(problem, candidate, config, device, job)
        finally:
            self._crowd.leave(device)
        return judged.model_copy(update={"findings": findings, "stage_seconds": stages.seconds()})

    def _judged(
        self,
        problem: Problem,
        candidate: Candidate,
        config: EvaluationConfig,
        device: str,
        job: EvaluationJob,
    ) -> Evaluation:
        """Judge a candidate that is worth running, on a device."""
        states = GpuStates(device)
        states.note("before")
        announce = job.on_stage

        def on_stage(stage: Stage) -> None:
            if stage is Stage.ATTRIBUTE:
                states.note("after")
            announce(stage)

        job.on_stage = on_stage
        if _BUILDS in candidate.source:
            self._workshop(strongest(config.sandbox)).builder.prepare_ahead()
        referee, answer = self._roomy_answer(problem, candidate, config, device, job)
        environment = _environment(config, device, referee, states.all() | wait_policy())
        detail = str(answer.detail)
        measured = answer.measurement
        passed = answer.status == Status.PASSED
        return _evaluation(
            problem,
            candidate,
            config,
            status=Status(answer.status),
            stage=Stage(answer.stage),
            detail=detail,
            traceback=answer.traceback,
            speedup=measured["speedup"] if measured and passed else None,
            measurement=measured,
            verification=answer.verification,
            sanitization=answer.sanitization,
            plausibility=answer.plausibility,
            attribution=answer.attribution,
            counters=answer.counters,
            builds=tuple(job.builds),
            environment=environment,
            problem_flaws=self._flaws_of(problem, config, device, referee),
            notes=tuple(answer.notes),
            device_seconds=round(job.device_s, 4) if config.measure else None,
            output_tail=job.output_tail,
        )

    def _roomy_answer(
        self,
        problem: Problem,
        candidate: Candidate,
        config: EvaluationConfig,
        device: str,
        job: EvaluationJob,
    ) -> tuple[RefereeClient, CandidateEvaluated]:
        """What `_answer` says once the device has room: idle referees go first, then we wait for others."""
        try:
            return self._answer(problem, candidate, config, device, job)
        except DeviceFull:
            has_room = self._idle.dismiss(device)
            if device == "cpu" and not (has_room or self._crowd.is_shared(device)):
                raise
        if has_room:
            with suppress(DeviceFull):
                job.begin_again()
                return self._answer(problem, candidate, config, device, job)
        with self._crowd.alone(device, job.stop):
            self._idle.dismiss(device)
            job.begin_again(alone=True)
            return self._answer(problem, candidate, config, device, job)

    def _answer(
        self,
        problem: Problem,
        candidate: Candidate,
        config: EvaluationConfig,
        device: str,
        job: EvaluationJob,
    ) -> tuple[RefereeClient, CandidateEvaluated]:
        """A referee's answer, and the referee."""
        with self._referee(problem, config, device, job) as referee:
            answer = referee.judge(candidate, job)
        return referee, answer

    def sanitize(
        self, problem: Problem, candidate: Candidate, config: EvaluationConfig | None = None
    ) -> Sanitization:
        """Run the sanitizers on a candidate that passed, whatever `config.sanitize` says of evaluations.

        What convicts it is in `convicts`; a tool that is missing or fails is `ran=False` with the reason.

        Raises:
            ConfigError, ProblemError, MachineError, EvaluatorError: as `evaluate` does.
        """
        config = config or EvaluationConfig()
        check_packages(candidate.backend)
        problem.overrides(config.shapes)
        device = resolve_device(config.device, candidate.backend)
        job = EvaluationJob(on_stage=lambda stage: None, alone=True)
        with self._referee(problem, config, device, job) as referee:
            answer = referee.sanitize(candidate, job)
        return Sanitization.model_validate(answer.sanitization)

    def builds_plainly(self, evaluation: Evaluation) -> FullHeaderBuild:
        """Whether what a candidate built here also builds with torch's own headers, as it will elsewhere.

        Raises:
            MachineError: no compiler, no sandbox, or a full disk.
        """
        return rebuild(self._workshop(strongest(evaluation.config.sandbox)).builder, evaluation)

    def vet(self, problem: Problem, config: EvaluationConfig | None = None) -> ProblemReport:
        """Look for flaws in a problem; those found mark its later scores on this machine.

        Raises:
            ConfigError: unknown device or shape name.
            MachineError: no sandbox or device.
            EvaluatorError: the evaluator itself failed.
        """
        config = config or EvaluationConfig()
        device = resolve_device(config.device, "cuda" if gpus() else "cpp")
        with self._inspector(config, device) as inspector:
            return inspector.vet(problem, config, version=distribution_version())

    def describe(self, problem: Problem, config: EvaluationConfig | None = None) -> ProblemSignature:
        """What a problem is, by its sizes alone; nothing of it is computed. Remembered by content.

        Raises:
            ConfigError: unknown shape name.
            MachineError: no sandbox.
            EvaluatorError: the evaluator itself failed.
        """
        config = config or EvaluationConfig()
        problem.overrides(config.shapes)
        memory = self._workshop(strongest(config.sandbox)).memory
        key = f"description:1:{problem.id}:{problem.sha}:{config.shapes}:{config.dtype}"
        known = memory.recall(key).get("description")
        if known is not None:
            return ProblemSignature.model_validate(known)
        with self._inspector(config, "cpu") as inspector:
            found = inspector.describe(problem, config)
        memory.remember(key, {"description": found.model_dump(mode="json")})
        return found

    @contextmanager
    def _inspector(self, config: EvaluationConfig, device: str) -> Iterator[ProblemInspector]:
        """An idle inspector of a device, or a new one."""
        tier = strongest(config.sandbox)
        with self._guard:
            idle = self._inspectors.setdefault((tier, device, config.threads), [])
            inspector = idle.pop() if idle else None
        if inspector is None:
            inspector = ProblemInspector(self._workshop(tier), device, wanted_threads=config.threads)
        try:
            yield inspector
        finally:
            with self._guard:
                if inspector.usable and not self._closed:
                    idle.append(inspector)
                else:
                    inspector.close()

    def close(self) -> None:
        """End every process and remove temporary folders."""
        with self._guard:
            self._closed = True
            inspectors = [inspector for group in self._inspectors.values() for inspector in group]
            self._inspectors.clear()
        self._idle.close()
        for inspector in inspectors:
            inspector.close()
        for workshop in self._workshops.values():
            workshop.stocks.close()
        self._launcher.close()
        for workshop in self._workshops.values():
            workshop.stocks.settle()
            workshop.staging.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _workshop(self, tier: SandboxTier) -> EvaluatorResources:
        with self._guard:
            if tier not in self._workshops:
                builder = Builder(cache=self._cache / "builds", launcher=self._launcher, tier=tier)
                memory = MeasurementCache(
                    self._cache / "baselines",
                    judge=lambda: f"{source_sha()}:{tier.value}:{builder.toolchain.cxx.identity}",
                )
                self._workshops[tier] = EvaluatorResources(
                    self._launcher, builder, RuntimeImage(tier), memory
                )
            return self._workshops[tier]

    def _flaws_of(
        self, problem: Problem, config: EvaluationConfig, device: str, referee: RefereeClient
    ) -> tuple[str, ...]:
        memory = self._workshop(strongest(config.sandbox)).memory
        return flaws_of(memory, problem, config, device, referee.facts.flaws)

    @contextmanager
    def _referee(
        self, problem: Problem, config: EvaluationConfig, device: str, job: EvaluationJob
    ) -> Iterator[RefereeClient]:
        """A referee of this problem and policy, for one candidate; kept for the next unless that failed."""
        key = _key(problem, config, device)
        idle = self._idle.take(key, device, job.stop)
        referee = idle
        try:
            if referee is None:
                workshop = self._workshop(strongest(config.sandbox))
                referee = RefereeClient(workshop, problem, config, device, job)
            yield referee
        except BaseException:
            if referee is not None:
                referee.close()
            self._idle.lose(key, opened=idle is None)
            raise
        self._idle.keep(key, referee, opened=idle is None)


def evaluate(
    problem: Problem,
    candidate: Candidate,
    config: EvaluationConfig | None = None,
    *,
    cache: Path | None = None,
    on_stage: OnStage | None = None,
) -> Evaluation:
    """Judge one candidate with an evaluator of its own; see `Evaluator.evaluate` for what it raises."""
    with Evaluator(cache=cache) as evaluator:
        return evaluator.evaluate(problem, candidate, config, on_stage=on_stage)


def _evaluation(
    problem: Problem,
    candidate: Candidate,
    config: EvaluationConfig,
    # Any: fields of an Evaluation, validated by its constructor.
    **fields: Any,
) -> Evaluation:
    return Evaluation(
        problem=problem.id,
        problem_sha=problem.sha,
        candidate_sha=candidate.sha,
        backend=candidate.backend,
        config=config,
        evaluator_version=distribution_version(),
        evaluator_sha=source_sha(),
        evaluated_at=datetime.now(UTC).isoformat(timespec="seconds"),
        **fields,
    )


def _environment(
    config: EvaluationConfig, device: str, referee: RefereeClient, state: dict[str, str]
) -> Environment:
    return Environment(
        device=device,
        device_name=referee.facts.device_name or cpu_name(),
        driver=gpu.driver if (gpu := gpu_of(device)) else "",
        torch=referee.facts.torch,
        cuda=referee.facts.cuda,
        python=platform.python_version(),
        cpu=cpu_name(),
        threads=threads(config.threads),
        sandbox=referee.report,
        state=state,
    )


def _key(problem: Problem, config: EvaluationConfig, device: str) -> str:
    return f"{problem.sha}:{device}:{config.model_dump_json()}"


def default_cache() -> Path:
    """Where finished builds and everything else that is remembered lies, unless told otherwise."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kernelwright"
