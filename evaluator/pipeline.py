"""`evaluate()`: the stages from screening to decision, and the referees that carry them out."""

from __future__ import annotations

import hashlib
import os
import platform
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from evaluator.backends import find_backend
from evaluator.building.builder import Builder
from evaluator.candidate import Candidate
from evaluator.config import EvaluationConfig, SandboxTier
from evaluator.evaluation import Environment, Evaluation, Sanitization, Stage, Status
from evaluator.flaws import Vetting
from evaluator.machine import cpu_name, gpu_of, gpu_state, gpus, resolve_device, threads
from evaluator.problem import Problem
from evaluator.refereeing import Job, RefereeHandle, Workshop
from evaluator.remembering import FileMemory
from evaluator.sandbox import Launcher, strongest
from evaluator.screening import screen
from evaluator.staging import Staging
from evaluator.vetting import Inspector, flaws_of

_IDLE_REFEREES = 2

OnStage = Callable[[Stage], None]


class Evaluator:
    """Judges candidates; keeps referees of recent problems warm. Usable from any thread."""

    def __init__(self, *, cache: Path | None = None, idle_referees: int = _IDLE_REFEREES) -> None:
        """`cache` holds built libraries and remembered baselines; default `~/.cache/kernelwright`."""
        # Sandboxes bind folders of it, and know no working directory of ours.
        self._cache = (cache or _default_cache()).absolute()
        self._launcher = Launcher()
        self._guard = threading.Lock()
        self._workshops: dict[SandboxTier, Workshop] = {}
        self._idle: OrderedDict[str, list[RefereeHandle]] = OrderedDict()
        self._inspectors: dict[tuple[SandboxTier, str, int | None], list[Inspector]] = {}
        self._idle_limit = idle_referees
        self._closed = False

    def evaluate(
        self,
        problem: Problem,
        candidate: Candidate,
        config: EvaluationConfig | None = None,
        *,
        on_stage: OnStage | None = None,
    ) -> Evaluation:
        """Judge one candidate on one problem.

        Raises:
            ConfigError: unknown backend, device or shape name.
            ProblemError: the problem does not run here.
            MachineError: no sandbox, compiler, device or disk space.
            EvaluatorError: the evaluator itself failed; nothing is scored.
        """
        config = config or EvaluationConfig()
        stages = _Stages(on_stage)
        find_backend(candidate.backend)
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
        device = resolve_device(config.device, candidate.backend)
        before = gpu_state(device)
        job = Job(on_stage=stages.enter)
        referee = self._checkout(problem, config, device)
        try:
            answer = referee.judge(candidate, job)
        except BaseException:
            referee.close()
            raise
        self._give_back(problem, config, device, referee)
        environment = _environment(config, device, referee, before)
        detail = str(answer["detail"])
        measured = answer["measurement"]
        passed = answer["status"] == Status.PASSED
        return _evaluation(
            problem,
            candidate,
            config,
            status=Status(answer["status"]),
            stage=Stage(answer["stage"]),
            detail=detail,
            traceback=answer["traceback"],
            speedup=measured["speedup"] if measured and passed else None,
            measurement=measured,
            verification=answer["verification"],
            sanitization=answer["sanitization"],
            plausibility=answer["plausibility"],
            attribution=answer["attribution"],
            findings=findings,
            builds=tuple(job.builds),
            environment=environment,
            problem_flaws=self._flaws_of(problem, config, device, referee),
            notes=tuple(answer["notes"]),
            stage_seconds=stages.seconds(),
            output_tail=job.output_tail,
        )

    def sanitize(
        self, problem: Problem, candidate: Candidate, config: EvaluationConfig | None = None
    ) -> Sanitization:
        """Run the sanitizers on a candidate that passed, whatever `config.sanitize` says of evaluations.

        What convicts it is in `convicts`; a tool that is missing or fails is `ran=False` with the reason.

        Raises:
            ConfigError, ProblemError, MachineError, EvaluatorError: as `evaluate` does.
        """
        config = config or EvaluationConfig()
        problem.overrides(config.shapes)
        device = resolve_device(config.device, candidate.backend)
        referee = self._checkout(problem, config, device)
        try:
            answer = referee.sanitize(candidate, Job(on_stage=lambda stage: None))
        except BaseException:
            referee.close()
            raise
        self._give_back(problem, config, device, referee)
        return Sanitization.model_validate(answer["sanitization"])

    def vet(self, problem: Problem, config: EvaluationConfig | None = None) -> Vetting:
        """Look for flaws in a problem; those found mark its later scores on this machine.

        Raises:
            ConfigError: unknown device or shape name.
            MachineError: no sandbox or device.
            EvaluatorError: the evaluator itself failed.
        """
        config = config or EvaluationConfig()
        device = resolve_device(config.device, "cuda" if gpus() else "cpp")
        tier = strongest(config.sandbox)
        kind = (tier, device, config.threads)
        with self._guard:
            idle = self._inspectors.setdefault(kind, [])
            inspector = idle.pop() if idle else None
        if inspector is None:
            inspector = Inspector(self._workshop(tier), device, wanted_threads=config.threads)
        try:
            return inspector.vet(problem, config, version=_version())
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
            idle = [referee for group in self._idle.values() for referee in group]
            self._idle.clear()
            inspectors = [inspector for group in self._inspectors.values() for inspector in group]
            self._inspectors.clear()
        for referee in idle:
            referee.close()
        for inspector in inspectors:
            inspector.close()
        self._launcher.close()
        for workshop in self._workshops.values():
            workshop.staging.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _workshop(self, tier: SandboxTier) -> Workshop:
        with self._guard:
            if tier not in self._workshops:
                self._workshops[tier] = Workshop(
                    launcher=self._launcher,
                    builder=Builder(cache=self._cache / "builds", launcher=self._launcher, tier=tier),
                    staging=Staging(tier),
                    memory=FileMemory(self._cache / "baselines"),
                )
            return self._workshops[tier]

    def _flaws_of(
        self, problem: Problem, config: EvaluationConfig, device: str, referee: RefereeHandle
    ) -> tuple[str, ...]:
        memory = self._workshop(strongest(config.sandbox)).memory
        return flaws_of(memory, problem, config, device, referee.facts["flaws"])

    def _checkout(self, problem: Problem, config: EvaluationConfig, device: str) -> RefereeHandle:
        """An idle referee of this problem and policy, or a new one."""
        with self._guard:
            group = self._idle.get(_key(problem, config, device))
            if group:
                return group.pop()
        return RefereeHandle(self._workshop(strongest(config.sandbox)), problem, config, device)

    def _give_back(
        self, problem: Problem, config: EvaluationConfig, device: str, referee: RefereeHandle
    ) -> None:
        """Keep a referee for the next candidate; the longest unused one goes when there are too many."""
        surplus: list[RefereeHandle] = []
        with self._guard:
            key = _key(problem, config, device)
            self._idle.setdefault(key, []).append(referee)
            self._idle.move_to_end(key)
            while self._closed or sum(map(len, self._idle.values())) > self._idle_limit:
                oldest = next(iter(self._idle))
                surplus.append(self._idle[oldest].pop(0))
                if not self._idle[oldest]:
                    del self._idle[oldest]
                if not self._idle:
                    break
        for extra in surplus:
            extra.close()


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


class _Stages:
    """Announces stages and adds up the wall time spent in each."""

    def __init__(self, on_stage: OnStage | None) -> None:
        self._on_stage = on_stage
        self._seconds: dict[str, float] = {}
        self._current: Stage | None = None
        self._since = time.monotonic()

    def enter(self, stage: Stage) -> None:
        """Announce the stage before it is entered."""
        self._settle()
        self._current = stage
        if self._on_stage is not None:
            self._on_stage(stage)

    def seconds(self) -> dict[str, float]:
        """Seconds per stage so far."""
        self._settle()
        return {name: round(value, 4) for name, value in self._seconds.items()}

    def _settle(self) -> None:
        now = time.monotonic()
        if self._current is not None:
            spent = self._seconds.get(self._current.value, 0.0) + now - self._since
            self._seconds[self._current.value] = spent
        self._since = now


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
        evaluator_version=_version(),
        evaluator_sha=_source_sha(),
        evaluated_at=datetime.now(UTC).isoformat(timespec="seconds"),
        **fields,
    )


def _environment(
    config: EvaluationConfig, device: str, referee: RefereeHandle, before: dict[str, str]
) -> Environment:
    gpu = gpu_of(device)
    after = gpu_state(device)
    return Environment(
        device=device,
        device_name=referee.facts["device_name"] or cpu_name(),
        driver=gpu.driver if gpu else "",
        torch=referee.facts["torch"],
        cuda=referee.facts["cuda"],
        python=platform.python_version(),
        cpu=cpu_name(),
        threads=threads(config.threads),
        sandbox=referee.report,
        state={f"before {name}": value for name, value in before.items()}
        | {f"after {name}": value for name, value in after.items()},
    )


def _key(problem: Problem, config: EvaluationConfig, device: str) -> str:
    return f"{problem.sha}:{device}:{config.model_dump_json()}"


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kernelwright"


def _version() -> str:
    """The installed distribution's version; unknown when run from a bare copy of the source."""
    try:
        return metadata.version("kernelwright")
    except metadata.PackageNotFoundError:
        return "unknown"


@cache
def _source_sha() -> str:
    """Hash of every source file of this package, names included."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".h", ".cpp") and path.is_file():
            digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
