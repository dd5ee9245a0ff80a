"""Takes one candidate through the stages of the referee, whose order is that of `_run_stages`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, TypeVar

from kernelwright.evaluator.analysis.plausibility import contradiction
from kernelwright.evaluator.building.lean_headers.suspicion import SUSPECT_STATUSES
from kernelwright.evaluator.devices import is_device_full
from kernelwright.evaluator.ipc.driver_requests import EnterStage
from kernelwright.evaluator.referee.checks.kernel_profile import attribute_kernels, count_counters
from kernelwright.evaluator.referee.correctness.guarded_calls import GuardedCalls
from kernelwright.evaluator.referee.correctness.verification import Verifier
from kernelwright.evaluator.referee.device_memory import require_shortage_is_own
from kernelwright.evaluator.referee.open_problem import OpenProblem
from kernelwright.evaluator.referee.outcome import Outcome
from kernelwright.evaluator.referee.policy import INCONCLUSIVE
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.quiet_device import hold_quiet
from kernelwright.evaluator.referee.worker.setup import (
    ModelSpec,
    begin_load,
    load_model,
    start,
)
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Measurement, Stage, Status, Verification
from kernelwright.evaluator.schema.record import Record

Recorded = TypeVar("Recorded", bound=Record | None)

_NO_ROOM_LEFT: Final = "it left no room on the device for the inputs of timed calls"


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """One candidate, and how it is to be evaluated."""

    source: str
    compile_s: float
    """Seconds on top for a model's first call, because it compiles kernels."""
    others_evicted: bool
    """Others have made room on the device."""
    full_headers: bool = False
    """Libraries are built with torch's own headers instead of the lean ones."""
    any_address: bool = True
    """Tensors may lie at addresses less aligned than torch's."""


class _Retry(Enum):
    """Change to a request, without which the candidate's failure says little."""

    ALIGNED = auto()
    """Tensors lie at torch's addresses: it failed at less aligned ones, which is allowed."""
    FULL_HEADERS = auto()
    """Libraries are built with torch's own headers: a fault of the lean ones could look like this."""


def evaluate_candidate(problem: OpenProblem, request: EvaluationRequest) -> Outcome:
    """Evaluate a candidate; again where its failure may be the fault of tensors' addresses or lean headers.

    Raises:
        DeviceFull: it ran out of device memory, and others may be why.
    """
    problem.prepare()
    outcome, retry = _evaluate_once(problem, request)
    if retry is _Retry.ALIGNED:
        request = replace(request, any_address=False)
        outcome, retry = _evaluate_once(problem, request)
    if retry is _Retry.FULL_HEADERS:
        again, _ = _evaluate_once(problem, replace(request, full_headers=True))
        decides = again.status not in INCONCLUSIVE
        note = (
            f"{outcome.status} with lean headers, {again.status} with torch's own, "
            f"which {'count' if decides else 'gave no answer'}"
        )
        outcome = again if decides else outcome
        outcome = replace(outcome, notes=(*outcome.notes, note))
    return replace(outcome, notes=(*outcome.notes, *problem.pool.notes()))


def _run_stages(problem: OpenProblem, request: EvaluationRequest, progress: _Progress) -> None:
    """Take a candidate through the stages; the first that raises decides its status."""
    config, source = problem.config, request.source
    measurement = plausibility = None
    progress.enter(Stage.LOAD)
    with problem.worker(compile_s=request.compile_s, full_headers=request.full_headers) as worker:
        progress.started(worker)
        begin_load(problem.context, worker, source, class_name="ModelNew")()

        progress.enter(Stage.VERIFY)
        problem.pool.begin_candidate()
        with _verifier(problem, worker, request) as verifier:
            verification = progress.add(verifier.verify(config.trials))

        if config.measure:
            progress.enter(Stage.TIME)
            draw = problem.pool.draws[0]  # it is timed with weights that it was verified with
            state = draw.model.state_dict() if verification.weights == "state_dict" else None
            spec = draw.spec("ModelNew", state=state)
            with problem.device_alone(worker):
                with problem.context.driver.step("lay out candidate"):
                    buffers = problem.session.lay_out(worker)
                measurement = _time(problem, worker, buffers, source, spec, progress)
                plausibility = problem.roofline.assess(
                    measurement.candidate.median_ms, calls=measurement.calls_per_batch
                )
                progress.enter(Stage.ATTRIBUTE)  # the driver notes the GPU's state before it is given back
            with progress.deciding(Stage.TIME):
                problem.timer.compare_with_exact()
            progress.add(measurement)
            progress.add(plausibility)
            progress.add(attribute_kernels(problem.context, worker, source))
            if not worker.lost:
                with contextlib.suppress(CandidateFailed):  # others may need the memory of its timed calls
                    buffers.free()
            with _verifier(problem, worker, request) as verifier:
                verifier.guard_again(verification.guarded)

        progress.add(_try_other_shapes(problem, worker, verification))  # recorded only

    if config.counters and problem.on_gpu:
        progress.add(count_counters(problem.variant, source, request.compile_s))  # recorded only
    if measurement is not None:
        measurement = progress.add(_recheck_baseline(problem, measurement))

    _sanitize(problem, source, measurement, verification, progress)

    progress.enter(Stage.DECIDE)
    if measurement is not None and plausibility is not None:
        why = contradiction(plausibility, measurement.candidate.median_ms)
        if why:
            raise CandidateFailed(Status.IMPLAUSIBLE, why)


def _evaluate_once(problem: OpenProblem, request: EvaluationRequest) -> tuple[Outcome, _Retry | None]:
    """Evaluate a candidate; return how it ended, and the change without which a failure says little."""
    progress = _Progress(problem)
    try:
        _run_stages(problem, request, progress)
    except CandidateFailed as failure:
        if failure.status is Status.OUT_OF_MEMORY:
            require_shortage_is_own(
                problem.context.device, failure.detail, others_evicted=request.others_evicted
            )
        if failure.facts.get("edge") == "inside":
            return progress.outcome.failed(failure), _Retry.ALIGNED
        if failure.status in SUSPECT_STATUSES and progress.headers_are_suspect:
            return progress.outcome.failed(failure), _Retry.FULL_HEADERS
        failure = _named_race(problem, request.source, failure, progress)
        return progress.outcome.failed(failure), None
    except RuntimeError as error:
        if not is_device_full(error):
            raise
        require_shortage_is_own(problem.context.device, str(error), others_evicted=request.others_evicted)
        return progress.outcome.failed(CandidateFailed(Status.OUT_OF_MEMORY, _NO_ROOM_LEFT)), None
    finally:
        problem.free_memory()
        problem.timer.forget_kept()
        problem.context.device.trim()
        problem.release_device()
        problem.timer.baselines.end_dismissed()
    return progress.outcome, None


@contextlib.contextmanager
def _verifier(problem: OpenProblem, worker: WorkerProcess, request: EvaluationRequest) -> Iterator[Verifier]:
    """A verifier of a process; a fault at the edge of a tensor is raised as a memory error that names it."""
    limits, pool = problem.config.limits, problem.pool
    guarded = GuardedCalls(
        problem.context,
        int(limits.memory_gib * 2**30),
        limits.call_s,
        exact=request.any_address and not request.compile_s,
    )
    verifier = Verifier(
        problem.context, worker, pool, secret=problem.secret, call_s=limits.call_s, guarded=guarded
    )
    try:
        yield verifier
    except CandidateFailed as failure:
        edge = failure.facts.get("edge", "inside")
        if edge != "inside":
            failure = guarded.explained(failure, edge, request.source, pool, limits.total_s)
        raise failure from None


def _load_again(problem: OpenProblem, worker: WorkerProcess, source: str, spec: ModelSpec) -> None:
    """Load a verified candidate in another process, which shares the device and has time of its own."""
    problem.hold_device(exclusive=False)
    worker.limit(problem.config.limits.total_s)
    load_model(problem.context, worker, source, spec)


def _time(
    problem: OpenProblem,
    worker: WorkerProcess,
    buffers: CallBuffers,
    source: str,
    spec: ModelSpec,
    progress: _Progress,
) -> Measurement:
    context = problem.context
    with contextlib.ExitStack() as processes:

        def start_again() -> CallBuffers:
            """For a second opinion on a GPU, start a process that has the device to itself."""
            worker.freeze()
            context.driver.release()  # what is starting ahead waits for it
            other = start(context, role="timed", compile_s=worker.compile_s)
            processes.callback(other.close)
            _load_again(problem, other, source, spec)
            other.freeze()
            other.extend(hold_quiet(context))
            other.thaw()
            progress.started(other)
            return problem.session.lay_out(other)

        measurement = problem.timer.time(buffers, start_again)
    progress.note(problem.timer.notes)
    return measurement


def _try_other_shapes(
    problem: OpenProblem, worker: WorkerProcess, verification: Verification
) -> Verification:
    """Add to a verification the statuses at shapes that the candidate was not asked for."""
    found = problem.other_shapes.try_on(worker)
    if not found:
        return verification
    specialized = any(status is not Status.PASSED for status in found.values())
    return verification.model_copy(update={"other_sizes": found, "shape_specialized": specialized})


def _recheck_baseline(problem: OpenProblem, measurement: Measurement) -> Measurement:
    """Time the baseline again, without the candidate, where that may tell more."""
    if not problem.timer.needs_recheck(measurement):
        return measurement
    problem.timer.start_compared(measurement)
    problem.hold_device(exclusive=True)
    rechecked = problem.timer.recheck(measurement)
    problem.free_memory()
    problem.hold_device(exclusive=False)
    return rechecked


def _sanitize(
    problem: OpenProblem,
    source: str,
    measurement: Measurement | None,
    verification: Verification,
    progress: _Progress,
) -> None:
    builds, repeatable = progress.builds, verification.bitwise_repeatable
    skipped = problem.sanitizer.skipped(source, builds)
    if skipped is not None:
        progress.add(skipped)
        return
    progress.enter(Stage.SANITIZE)
    call_ms = measurement.candidate.median_ms if measurement is not None else None
    found = progress.add(
        problem.sanitizer.sanitize(source, builds=builds, call_ms=call_ms, repeatable=repeatable)
    )
    if found.convicts is not None:
        raise CandidateFailed(found.convicts, found.reason)


def _named_race(
    problem: OpenProblem, source: str, failure: CandidateFailed, progress: _Progress
) -> CandidateFailed:
    """Ask the sanitizers about wrong outputs that change from call to call: they are often a race."""
    if not failure.facts.get("unsteady"):
        return failure
    if problem.sanitizer.skipped(source, progress.builds) is not None:
        return failure
    found = progress.add(problem.sanitizer.sanitize(source, builds=progress.builds))
    if found.convicts is None:
        return failure
    progress.enter(Stage.SANITIZE)
    return CandidateFailed(found.convicts, f"{found.reason}; {failure.detail}", **failure.facts)


class _Progress:
    """The outcome so far; every stage's record is added to it."""

    def __init__(self, problem: OpenProblem) -> None:
        self._problem = problem
        self._workers: list[WorkerProcess] = []
        self.outcome = Outcome()

    def enter(self, stage: Stage) -> None:
        self.outcome = replace(self.outcome, stage=stage)
        self._problem.context.driver.ask(EnterStage(stage=stage.value))

    @contextlib.contextmanager
    def deciding(self, stage: Stage) -> Iterator[None]:
        """Failures are those of an earlier stage, part of which comes later."""
        now, self.outcome = self.outcome.stage, replace(self.outcome, stage=stage)
        yield
        self.outcome = replace(self.outcome, stage=now)

    def add(self, record: Recorded) -> Recorded:
        """Keep a record, and return it."""
        if record is not None:
            self.outcome = self.outcome.with_record(record)
        return record

    def note(self, remarks: list[str]) -> None:
        """Keep remarks for a reader of the scores."""
        self.outcome = replace(self.outcome, notes=(*self.outcome.notes, *remarks))

    def started(self, worker: WorkerProcess) -> None:
        """Remember a worker, whose builds count after it has ended, too."""
        self._workers.append(worker)

    @property
    def builds(self) -> int:
        """Most extensions that the candidate built in a process."""
        return max((worker.builds.count for worker in self._workers), default=0)

    @property
    def headers_are_suspect(self) -> bool:
        """A fault of the lean headers could be in one of those extensions."""
        return any(worker.builds.suspect for worker in self._workers)
