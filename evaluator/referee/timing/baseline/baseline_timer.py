"""The baselines of a problem on this device: the reference by itself, compiled, and in several processes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Final

import torch

from kernelwright.evaluator.ipc.driver_requests import Expect
from kernelwright.evaluator.referee.device_memory import require_shortage_is_own
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.baseline.baseline_cache import BaselineCache
from kernelwright.evaluator.referee.timing.baseline.compiled_reference import CompiledReference
from kernelwright.evaluator.referee.timing.baseline.measured_baselines import Baselines
from kernelwright.evaluator.referee.timing.claimed_time import trusted_timing
from kernelwright.evaluator.referee.timing.speedup import BaselineFacts, is_contended
from kernelwright.evaluator.referee.timing.statistics import process_spread, ratio, ratio_interval
from kernelwright.evaluator.referee.timing.timing_session import TimingSession
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import load_model, start
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.errors import EvaluatorError, ProblemError
from kernelwright.evaluator.schema.evaluation import Status, Timing

_OTHER_OUTPUTS: Final = (Status.WRONG_VALUES, Status.WRONG_SHAPE, Status.WRONG_DTYPE, Status.INPUT_MUTATED)
"""Compiled, the reference does something else."""


class BaselineTimer:
    """Times a problem's reference; owns its processes."""

    def __init__(self, session: TimingSession) -> None:
        self._context = context = session.context
        self._cache = BaselineCache(context.driver)
        self._session = session
        self._kind = session.kind
        self._measured: Baselines | None = None
        self._started: list[WorkerProcess] = []
        """Reference processes started ahead; memory for timed calls is taken by one after the other."""
        self._dismissed: list[WorkerProcess] = []
        """Reference processes to be ended while others may use the device."""
        self._compiled = CompiledReference(context, session.pool)
        self._disturbed = False
        """True once other programs wanted the cores while something was measured."""

    @property
    def known(self) -> bool:
        """True once `measure` has nothing left to do."""
        return self._measured is not None

    def lay_out_alone(self) -> Baselines:
        """Measure the baselines and make room for their calls, until `free`; raises what `measure` does."""
        with self._raising(EvaluatorError, "by itself"):
            return self.lay_out_beside_candidate()

    def lay_out_beside_candidate(self) -> Baselines:
        """Do the same while a candidate lives, which may have taken the memory.

        Raises:
            torch.OutOfMemoryError: there is no room for calls.
            EvaluatorError: the reference failed, which is no fault of the candidate.
        """
        found = self.measure()
        try:
            found.lay_out(self._session)
        except CandidateFailed as failure:
            if failure.status is Status.OUT_OF_MEMORY:
                raise torch.OutOfMemoryError(failure.detail) from failure
            raise EvaluatorError(f"the reference failed by itself: {failure.detail}") from failure
        return found

    def free(self) -> None:
        """Give the memory for calls back, so that others may time."""
        if self._measured is not None:
            self._measured.free()

    def end_dismissed(self) -> None:
        """End processes that are needed no more, which takes 0.1 to 0.2 s each on a GPU."""
        while self._dismissed:
            self._dismissed.pop().close()

    def measure(self) -> Baselines:
        """Time the reference alone: once, for every candidate.

        Raises:
            ProblemError: the reference does not run in its sandbox.
            DeviceFull: others hold the memory that a baseline needs.
            EvaluatorError: a baseline could not be measured, which says nothing of the problem.
        """
        if self._measured is None:
            with self._raising(ProblemError, "in its sandbox"):
                self._measured = self._measure()
            facts = self._measured.facts
            fastest_share = min(1.0, facts.compile_ratio or 1.0)
            self._session.set_reference_time(facts.solo_ms, fastest_share=fastest_share)
        return self._measured

    def start_processes(self) -> None:
        """Start the processes that `measure` will time, while others may still use the device.

        Raises:
            ProblemError: the reference does not run in its sandbox.
        """
        compares = self._kind == "cpu" and self._cache.recall("process_spread", queued=False) is None
        processes = policy.COMPARED_PROCESSES[self._kind] if compares else 1
        # On a GPU the compiled one's comes with them, and the candidate's.
        beside = 1 + self._lacks_compiled if self._kind == "cuda" else 0
        self._context.driver.ask(Expect(count=processes + beside))
        with self._raising(ProblemError, "in its sandbox"):
            self._start(processes)
        if self._lacks_compiled:
            self._compiled.prepare()

    def start_compared(self) -> None:
        """Start the processes that `compare_processes` will time, while others may still use the device.

        Raises:
            DeviceFull: others hold the memory that they need.
            EvaluatorError: the reference failed.
        """
        others = policy.COMPARED_PROCESSES[self._kind] - 1
        self._context.driver.ask(Expect(count=others))
        with self._raising(EvaluatorError, "by itself"):
            self._start(others)

    def compare_processes(self, found: Baselines, *, queued: bool) -> None:
        """Measure how much processes differ, in calls that are queued or in others.

        Raises:
            DeviceFull: others hold the memory that it needs.
            EvaluatorError: it could not be measured.
        """
        few = _few(found.count, found.facts.solo_ms)
        try:
            with self._raising(EvaluatorError, "by itself"), self._context.driver.step("time process spread"):
                found.spreads[queued] = self._process_spread(found.eager, few, queued=queued)
        finally:
            self._dismiss_unneeded()

    def time_alone(self, found: Baselines, count: int, queued: bool) -> Timing:
        """Time the reference with nobody else around; raises what `compare_processes` does."""
        with self._raising(EvaluatorError, "by itself"):
            return self._time_alone(found.eager, count, queued)

    def _time_alone(self, eager: CallBuffers, count: int, queued: bool) -> Timing:
        timer = self._session.timer(count, queued)
        return trusted_timing(timer.solo(eager, policy.SOLO_TURNS), timer.batch)

    def _measure(self) -> Baselines:
        step, sizer = self._context.driver.step, self._session.sizer
        with step("lay out"):
            eager = self._reference()
        with step("size"):
            # A process's first work has to be loaded, which waits for whatever is queued.
            self._session.trusted_timer(1, queued=False).solo(eager, 1)
            if eager.gate is not None:
                eager.gate.expect(self._context.operations)
            count = sizer.grown(eager, sizer.size(eager, None))
        gate, queued = eager.gate, eager.gate is not None
        capacity = gate.capacity if gate is not None else 0
        with step("time alone"):
            alone = self._time_alone(eager, count, queued)
        compile_ratio, impossible = None, {}
        if "compile" in self._session.config.baselines:
            try:
                with step("time compiled"):
                    compile_ratio = self._compile_ratio_with_retry(eager, count, alone, queued)
            except CandidateFailed as failure:
                impossible["compile"] = _compile_failure_reason(failure)
        facts = BaselineFacts(
            alone.median_ms, alone.spread_ms, compile_ratio, None, impossible, self._disturbed
        )
        found = Baselines(eager.worker, queued, facts, count, gate, capacity, eager)
        for each in (False, True):
            if (known := self._cache.recall("process_spread", each)) is not None:
                found.spreads[each] = known
        if self._kind == "cpu" and queued not in found.spreads:
            with step("time process spread"):
                few = _few(count, alone.median_ms)
                found.spreads[queued] = self._process_spread(eager, few, queued=queued)
        self._dismiss_unneeded()
        return found

    @property
    def _lacks_compiled(self) -> bool:
        """True where the compiled reference is to be measured, and no cache tells its time."""
        wanted = not self.known and "compile" in self._session.config.baselines
        return wanted and self._cache.lacks("compile_ratio")

    def _compile_ratio_with_retry(self, eager: CallBuffers, count: int, alone: Timing, queued: bool) -> float:
        """Measure `_compile_ratio`; where it fails, retry while nobody else uses the device."""
        while True:
            try:
                return self._compile_ratio(eager, count, alone, queued)
            except (CandidateFailed, torch.OutOfMemoryError) as error:
                self._require_room(error)
                failure = self._compiled.note(error)
                if not self._compiled.may_be_tried:
                    raise failure from None

    def _compile_ratio(self, eager: CallBuffers, count: int, alone: Timing, queued: bool) -> float:
        """Compiled time over eager time, interleaved, or from this machine's cache."""
        known_ms, known_error = (
            self._cache.recall(name, queued) for name in ("compile_solo_ms", "compile_error")
        )
        most = policy.DRIFT[self._kind]
        known = self._cache.recall("compile_ratio", queued)
        if known is not None and still_holds(
            known_ms=known_ms, error=known_error, solo_ms=alone.median_ms, most=most
        ):
            return known
        found, error = self._compare(eager, self._reference(compiled=True), count, queued)
        self._remember(queued, compile_ratio=found, compile_error=error, compile_solo_ms=alone.median_ms)
        return found

    def _process_spread(self, eager: CallBuffers, count: int, *, queued: bool) -> float:
        """Spread between processes of the reference, each interleaved with the one that is timed."""
        others = range(policy.COMPARED_PROCESSES[self._kind] - 1)
        ratios = [self._compare(eager, self._reference(), count, queued)[0] for _ in others]
        found = process_spread([1.0, *ratios])
        self._remember(queued, process_spread=found)
        return found

    def _compare(
        self, eager: CallBuffers, other: CallBuffers, count: int, queued: bool
    ) -> tuple[float, float]:
        """Time another process against the eager one; return the ratio and its relative error.

        Where the other cannot queue its calls, neither does.
        """
        try:
            self._session.trusted_timer(count, queued=False).solo(other, policy.WARM_UP_TURNS)
            fitting = self._session.sizer.queueable(other, count) if queued else count
            timer = self._session.trusted_timer(fitting, queued=queued and other.gate is not None)
            turns = timer.compare(other, eager)
        except BaseException:
            other.worker.close()
            raise
        self._dismiss(other)
        self._disturbed |= is_contended(trusted_timing(turns.candidate, turns.batch))
        claimed = [[turn.claimed_ms for turn in log.batches] for log in (turns.candidate, turns.baseline)]
        share = policy.TYPICAL_QUANTILE[self._kind]
        middle, interval = ratio(*claimed, share=share), ratio_interval(*claimed, share=share)
        return middle, (interval.high - interval.low) / 2 / middle

    def _dismiss(self, other: CallBuffers) -> None:
        """Free the memory of a process that was compared, which is ended later; at once where that fails."""
        try:
            other.worker.thaw()
            other.free()
            other.worker.freeze()
            self._dismissed.append(other.worker)
        except CandidateFailed:
            other.worker.close()

    def _remember(self, queued: bool, **found: float) -> None:
        """Add to this machine's cache, unless other programs disturbed what was found."""
        if not self._disturbed:
            self._cache.remember(queued, **found)

    def _reference(self, *, compiled: bool = False) -> CallBuffers:
        """Take a process with the reference that was started ahead, or start one."""
        if compiled:
            worker = self._compiled.take()
        else:
            worker = self._started.pop(0) if self._started else self._loaded(shares=False)
        try:
            return self._session.lay_out(worker)
        except BaseException:
            worker.close()
            raise

    def _start(self, count: int) -> None:
        """Start processes ahead; of the second and later ones, a failure shows where they are needed."""
        while len(self._started) < count:
            try:
                self._started.append(self._loaded(shares=True))
            except (CandidateFailed, torch.OutOfMemoryError):
                if not self._started:
                    raise
                break

    def _loaded(self, *, shares: bool) -> WorkerProcess:
        """Start a process with the reference; one that `shares` the device lets others go first."""
        worker = start(self._context, role="baseline")
        try:
            if shares:
                self._context.driver.hold(exclusive=False, anew=True)
            self._load(worker)
        except BaseException:
            worker.close()
            raise
        return worker

    def _load(self, worker: WorkerProcess) -> None:
        spec = self._session.pool.draws[0].spec("Model")
        load_model(self._context, worker, self._context.reference.source, spec)

    @contextlib.contextmanager
    def _raising(self, kind: type[EvaluatorError], where: str) -> Iterator[None]:
        """Raise a failure of the reference as an error of a kind; `DeviceFull` where others may be why."""
        try:
            yield
        except (CandidateFailed, torch.OutOfMemoryError) as error:
            self._require_room(error)
            raise kind(f"the reference failed {where}: {error}") from error

    def _require_room(self, error: Exception) -> None:
        """Raise `DeviceFull` where others may have taken the memory that a baseline lacks."""
        status = Status.OUT_OF_MEMORY if isinstance(error, torch.OutOfMemoryError) else None
        if (error.status if isinstance(error, CandidateFailed) else status) is Status.OUT_OF_MEMORY:
            require_shortage_is_own(
                self._context.device, str(error), others_evicted=self._session.others_evicted
            )

    def _dismiss_unneeded(self) -> None:
        """Dismiss processes started ahead for numbers that the cache held after all."""
        self._dismissed += self._started
        self._started = []
        self._compiled.close()


def still_holds(*, known_ms: float | None, error: float | None, solo_ms: float, most: float) -> bool:
    """Return whether a ratio measured earlier still holds.

    `error` is its own, relative; the reference took `known_ms` when it was measured and takes `solo_ms` now.
    Neither may be off by more than `most`.
    """
    if known_ms is None or error is None:
        return False
    return error <= most and abs(solo_ms / known_ms - 1) <= most


def _compile_failure_reason(failure: CandidateFailed) -> str:
    """The reason, given by its own process, why a reference cannot be compiled.

    Raises:
        EvaluatorError: its process gave no reason, so the machine may be at fault.
    """
    is_said = "traceback" in failure.facts and failure.status is not Status.OUT_OF_MEMORY
    if is_said or failure.status in _OTHER_OUTPUTS:
        return f"torch.compile failed: {failure.detail[:300]}"
    raise EvaluatorError(
        f"the baseline `compile` could not be measured, so nothing is scored: {failure.detail[:300]}; "
        "try again, or leave it out of `baselines`"
    )


def _few(count: int, call_ms: float) -> int:
    """Reduce a batch to the calls that comparing two reference processes takes."""
    return max(1, min(count, math.ceil(policy.TRUSTED_BATCH_MS / max(call_ms, 1e-6))))
