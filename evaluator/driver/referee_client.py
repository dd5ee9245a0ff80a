"""The driver's end of one referee: opens a problem, has candidates evaluated, serves what that takes."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from kernelwright.evaluator.backends.registry import find_backend
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.driver.build_broker import BuildBroker
from kernelwright.evaluator.driver.evaluation_job import EvaluationJob
from kernelwright.evaluator.driver.measurement_cache import FactMemory, MeasurementCache
from kernelwright.evaluator.driver.policy import OPEN_S
from kernelwright.evaluator.driver.processes.pausable_processes import PausableProcesses, can_pause_on
from kernelwright.evaluator.driver.processes.process_launcher import ProcessLauncher
from kernelwright.evaluator.driver.processes.referee_process import RefereeProcess, Served
from kernelwright.evaluator.driver.processes.runtime_image import RuntimeImage
from kernelwright.evaluator.driver.processes.warm_pool import WarmPools
from kernelwright.evaluator.driver.worker_service import WorkerService
from kernelwright.evaluator.host import trace
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.host.hardware import cpu_name, gpu_of, threads, wait_policy
from kernelwright.evaluator.ipc import driver_requests as wire
from kernelwright.evaluator.ipc import referee_messages
from kernelwright.evaluator.ipc.channel import ChannelClosed, ChannelError
from kernelwright.evaluator.ipc.messages import Dispatcher, Message, Request
from kernelwright.evaluator.sandbox import Launcher, SandboxedProcess
from kernelwright.evaluator.schema.candidate import Candidate
from kernelwright.evaluator.schema.config import EvaluationConfig, Passes
from kernelwright.evaluator.schema.errors import EvaluatorError, ProblemError
from kernelwright.evaluator.schema.evaluation import Environment, Stage
from kernelwright.evaluator.schema.problem import Problem

A = TypeVar("A", bound=Message)
_TRACED_FACTS = ("id", "role", "tool", "stage", "exclusive", "count")
Handlers = Mapping[type[Request[Any]], Callable[[Any], Served | None]]


@dataclass(frozen=True, slots=True)
class EvaluatorResources:
    """Resources that the referees of one evaluator share."""

    launcher: Launcher
    builder: Builder
    image: RuntimeImage
    measurements: MeasurementCache
    warm_pools: WarmPools = field(default_factory=WarmPools)

    def process_launcher(self, config: EvaluationConfig, device: str, threads: int) -> ProcessLauncher:
        """Make the launcher of a device's contestants."""
        return ProcessLauncher(self.launcher, self.image, self.builder, config, device, threads)


def request_handlers(
    job: EvaluationJob, workers: WorkerService, memory: FactMemory, track: str = ""
) -> Handlers:
    """The handler of each kind of a referee's requests during one evaluation, whose steps go on a track."""
    return {
        wire.Start: partial(workers.start, job=job),
        wire.Kill: partial(workers.kill, job=job),
        wire.ReadReport: partial(workers.report, job=job),
        wire.BuildLibrary: partial(workers.build, job=job),
        wire.Hold: partial(workers.hold, job=job),
        wire.HoldForTools: partial(workers.hold_for_tools, job=job),
        wire.EnterStage: partial(_enter_stage, job=job),
        wire.RecordStep: partial(_record_step, track=track),
        wire.Release: workers.release,
        wire.Expect: workers.expect,
        wire.Freeze: workers.freeze,
        wire.Thaw: workers.thaw,
        wire.Peek: workers.peek,
        wire.OpenMemory: workers.open_memory,
        wire.OpenFreezer: workers.open_freezer,
        wire.FindPauses: workers.paused,
        wire.FindSymbols: workers.symbols,
        wire.FindSanitizers: workers.missing_sanitizers,
        wire.FindCounters: workers.missing_counters,
        wire.Recall: memory.recall,
        wire.Remember: memory.remember,
    }


def _enter_stage(request: wire.EnterStage, *, job: EvaluationJob) -> None:
    job.enter(Stage(request.stage))


def _record_step(request: wire.RecordStep, *, track: str) -> None:
    trace.record(f"steps of {track}", request.name, time.monotonic() - request.seconds)


def _traced(track: str, handler: Callable[[Any], Served | None], request: Request[Any]) -> Served | None:
    facts = {name: value for name, value in vars(request).items() if name in _TRACED_FACTS}
    with trace.span(track, request.op, **facts):
        return handler(request)


class RefereeClient:
    """One running referee with one problem open."""

    def __init__(
        self,
        resources: EvaluatorResources,
        problem: Problem,
        config: EvaluationConfig,
        device: str,
        job: EvaluationJob,
    ) -> None:
        """Start a referee and let it prepare the problem, for this job first.

        Raises Cancelled if the job's `stop` is set, and else what `RefereeProcess.converse` raises.
        """
        self._config = config
        self.device = device
        """Such as `cuda:0`."""
        self._threads = threads(config.threads)
        self._job = job
        self._toolchain = resources.builder.toolchain
        self._referees: list[SandboxedProcess] = []
        """The referee's process; empty until it has started, when others may already want the device."""
        pauses = PausableProcesses(self._running, on_paused=self._note_pause)
        self._lock = DeviceLock(device, pausable=pauses if can_pause_on(device) else None)
        self._track = trace.new_track(f"referee of {problem.id}")
        launcher = resources.process_launcher(config, device, self._threads)
        self._pool = resources.warm_pools.of(launcher)
        builds = BuildBroker(resources.builder, device, self._lock, config.limits.build_s)
        tool_pool = partial(resources.warm_pools.of_tool, launcher)
        self._workers = WorkerService(launcher, self._pool, tool_pool, self._lock, pauses, builds)
        self._pool.replenish()  # both import torch, at the same time
        try:
            if device == "cpu":
                self._lock.share()  # importing torch takes a core
            self._process = RefereeProcess(
                resources.launcher,
                resources.image,
                resources.image.referee_policy(device=device, threads=self._threads),
            )
        except BaseException:
            self._lock.close()
            raise
        self._referees.append(self._process.sandboxed)
        self.report = self._process.sandboxed.report
        # Measurements are remembered by torch and device, too, which the opened referee names: until then the
        # key is without them.
        key = _policy_key(problem, config, device, self._threads)
        self._memory = FactMemory(resources.measurements, device, self._threads, problem_key=key)
        try:
            opening = _opening(problem, config, device, self._threads, others_evicted=job.others_evicted)
            self.facts = self._converse(opening, EvaluationJob(stop=job.stop))
        except BaseException:
            self.close()
            raise
        finally:
            self._lock.release()
        key += f":{self.facts.torch}:{self.facts.device_name}"
        self._memory = FactMemory(resources.measurements, device, self._threads, problem_key=key)

    def evaluate(self, candidate: Candidate, job: EvaluationJob) -> referee_messages.CandidateEvaluated:
        """Have one candidate evaluated; raises EvaluatorError where nothing can be said about it."""
        job.source = candidate.source
        compiles = find_backend(candidate.backend).compiles_when_called
        compile_s = self._config.limits.compile_s if compiles else 0.0
        before_s = self._lock.alone_s
        request = referee_messages.EvaluateCandidate(
            source=candidate.source, compile_s=compile_s, others_evicted=job.others_evicted
        )
        answer = self._converse(request, job)
        job.note_device_time(self._lock.alone_s - before_s)
        self._pool.replenish()
        return answer

    def sanitize(self, candidate: Candidate, job: EvaluationJob) -> referee_messages.Sanitized:
        """Have the sanitizers run on one candidate, and nothing else; raises what `evaluate` raises."""
        job.source = candidate.source
        return self._converse(referee_messages.SanitizeCandidate(source=candidate.source), job)

    def environment(self, state: dict[str, str]) -> Environment:
        """Machine and software of its evaluations; `state` is the device's before and after."""
        cxx, cuda = self._toolchain.cxx, self._toolchain.cuda
        return Environment(
            device=self.device,
            device_name=self.facts.device_name or cpu_name(),
            driver=gpu.driver if (gpu := gpu_of(self.device)) else "",
            torch=self.facts.torch,
            cuda=self.facts.cuda,
            python=platform.python_version(),
            compiler=cxx.identity,
            nvcc=cuda.nvcc.identity if cuda and self.device != "cpu" else "",
            cpu=cpu_name(),
            threads=self._threads,
            sandbox=self.report,
            state=state | wait_policy(),
        )

    def _running(self) -> Iterator[SandboxedProcess]:
        yield from self._referees
        yield from [worker.sandboxed for worker in list(self._workers.workers.values())]

    def _note_pause(self, seconds: float) -> None:
        self._job.extend(seconds)  # of the job at work then

    def close(self) -> None:
        """Kill the referee and everything started for it."""
        with ExitStack() as closing:  # whatever cannot be ended, nobody waits for the device
            closing.callback(self._lock.close)
            closing.callback(self._workers.close)
            self._process.close()

    def _converse(self, request: Request[A], job: EvaluationJob) -> A:
        """Serve the referee's requests until it answers; raises what `evaluate` raises."""
        self._job = job
        handlers = request_handlers(job, self._workers, self._memory, self._track)
        traced = {kind: partial(_traced, self._track, handler) for kind, handler in handlers.items()}

        def enforce_deadline() -> None:
            if job.has_run_out():  # whatever the candidate is doing
                self._workers.end_candidates()

        dispatcher: Dispatcher[Served] = Dispatcher(traced, before=enforce_deadline)
        # An honest referee is silent no longer than this, and a candidate's deadline is enforced before.
        silence_s = OPEN_S + self._config.limits.total_s
        with job.stop.reaching(self._process.sandboxed):
            try:
                return self._process.converse(request, dispatcher, wait_s=lambda: silence_s)
            except ChannelError as error:
                raise self._lost(error) from error

    def _lost(self, error: ChannelError) -> EvaluatorError:
        report = self._process.sandboxed.kill()
        if report.out_of_memory:
            return ProblemError(f"the reference ran out of memory; choose smaller --shapes ({report.reason})")
        if not isinstance(error, ChannelClosed):
            return EvaluatorError(f"the referee does not answer: {error}")
        tail = self._process.output(2000)
        return EvaluatorError(f"the referee died ({report.reason}){': ' + tail if tail else ''}")


def _opening(
    problem: Problem, config: EvaluationConfig, device: str, threads: int, *, others_evicted: bool
) -> referee_messages.Open:
    return referee_messages.Open(
        problem=problem.id,
        source=problem.source,
        overrides=problem.overrides(config.shapes),
        config=config.model_dump(mode="json"),
        device="cpu" if device == "cpu" else "cuda",
        threads=threads,
        others_evicted=others_evicted,
    )


def _policy_key(problem: Problem, config: EvaluationConfig, device: str, threads: int) -> str:
    """Everything that decides what is measured of a problem, but for what the referee says of its machine."""
    key = f"{problem.sha}:{config.shapes}:{config.dtype}:{config.math}:{device}:{threads}"
    if config.passes is not Passes.FORWARD:
        key += f":{config.passes}"
    return key + "".join(f":{value}" for value in wait_policy().values())
