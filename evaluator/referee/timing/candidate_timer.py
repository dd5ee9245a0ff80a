"""Time a verified candidate against the baselines of its problem.

`CandidateTimer.time` is where to begin; timing_loop.py is the loop. Where a candidate's claims are
inconsistent with the referee's clock, a second process decides.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.baseline.baseline_timer import BaselineTimer
from kernelwright.evaluator.referee.timing.baseline.measured_baselines import Baselines
from kernelwright.evaluator.referee.timing.claimed_time import (
    Batch,
    PairedTurns,
    candidate_timing,
    forged_clock,
    trusted_timing,
)
from kernelwright.evaluator.referee.timing.speedup import BaselineFacts, measurement, needs_spread, slowed
from kernelwright.evaluator.referee.timing.timed_inputs import ComparedCall
from kernelwright.evaluator.referee.timing.timing_loop import WRONG_WHEN_TIMED, WrittenAhead
from kernelwright.evaluator.referee.timing.timing_session import TimingSession
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.errors import EvaluatorError
from kernelwright.evaluator.schema.evaluation import Measurement, Status, Timing

_PROCESS_FAILURES: Final = (
    Status.OUT_OF_MEMORY,
    Status.TIMED_OUT,
    Status.RUNTIME_ERROR,
    Status.COMPILE_ERROR,
)
"""Failures of a second process, beside the first, that say nothing of a verified candidate."""
_LATE_ANSWER: Final = "the first answered later than its claims explain"
_SLOW_BEHIND_GATE: Final = "behind a gate it took longer than its claims explain"
_UNQUEUED: Final = "calls were not queued ahead of the clock: launching them is in their times"


@dataclass(frozen=True, slots=True)
class TimedCandidate:
    """Times of a candidate and its baseline, compared anew once more is known of the baseline."""

    candidate: Timing
    baseline: Timing
    batch: Batch
    measurement: Measurement
    notes: tuple[str, ...] = ()
    doubt: str = ""
    """Why the claims cannot be true, if so: it cheats, or this one process is odd."""

    @property
    def is_consistent(self) -> bool:
        """True if claims and clock agree."""
        return not self.doubt and self.candidate.clock == "inner"

    def in_second_process(self, why: str) -> TimedCandidate:
        """Note why this is not the first process."""
        return replace(self, notes=(*self.notes, f"timed in a second process: {why}"))

    def against(self, facts: BaselineFacts) -> Measurement:
        """Compare both, given facts about the baseline."""
        return measurement(self.candidate, self.baseline, self.batch, facts)


class CandidateTimer:
    """Times the candidates of one problem."""

    def __init__(self, session: TimingSession) -> None:
        self._session, self._kind = session, session.kind
        self.baselines = BaselineTimer(session)
        self._last: TimedCandidate | None = None
        self._kept: list[ComparedCall] = []
        """Timed calls of the candidate that are still to be compared with exact outputs."""

    @property
    def notes(self) -> list[str]:
        """Remarks for a reader of the scores."""
        return list(self._last.notes if self._last is not None else ())

    def time(self, candidate: CallBuffers, second_process: Callable[[], CallBuffers]) -> Measurement:
        """Time a verified candidate. Retry in a second process if claims and clock disagree.

        `compare_with_exact` has to follow, which needs no worker; calls of all comparisons but the last were
        looked at in between.

        Some processes answer late all their life, so one doubtful process proves nothing. The first process
        whose claims agree with the clock decides. Only claims impossible in both fail the candidate.

        Raises:
            CandidateFailed: a timed output was wrong, the clock was forged, or the candidate failed.
            torch.OutOfMemoryError: it left no room for the reference's calls.
            EvaluatorError: the reference failed, which is no fault of the candidate.
        """
        self._last = None
        timed = self._measure(candidate)
        if not timed.is_consistent and policy.RECHECK_IN_SECOND_PROCESS[self._kind]:
            try:
                timed = self._measure_again(timed, second_process())
            except CandidateFailed as failure:
                if failure.status not in _PROCESS_FAILURES:
                    raise
        if timed.doubt:
            self.compare_with_exact()  # a wrong answer says more
            raise CandidateFailed(Status.TAMPERED, timed.doubt)
        self._last = timed
        return timed.measurement

    def compare_with_exact(self) -> None:
        """Compare some ordinary timed calls with exact outputs, as verification does.

        Raises:
            CandidateFailed: one of them is wrong.
        """
        kept, self._kept = self._kept, []
        for call in kept:
            if found := self._session.outputs.errs_beside_exact(call):
                raise CandidateFailed(Status.WRONG_VALUES, f"{WRONG_WHEN_TIMED}: {found}")

    def forget_kept(self) -> None:
        """Give back the memory of calls that nobody will compare any more."""
        self._kept = []

    def needs_recheck(self, found: Measurement) -> bool:
        """Return whether `recheck` has something to find out about the last candidate."""
        if self._last is None:
            return False
        if self._kind == "cpu":
            return found.speedup > 1
        return self._may_be_slowed(found) or self._lacks_spread(found)

    def start_compared(self, found: Measurement) -> None:
        """Start the processes that `recheck` will compare, if any, while others may still use the device.

        Raises what `recheck` does.
        """
        if self._lacks_spread(found):
            with self._or_assumed():
                self.baselines.start_compared()

    def recheck(self, found: Measurement) -> Measurement:
        """Re-time the baseline alone to see whether the candidate slowed it.

        The known time alone is old, and a device does not always run at one speed. On a CPU the kernel may
        work on for a frozen candidate, which shows only after its end: every score above 1 is rechecked,
        twice if the baseline seems slowed. Where that is needed, measure how much processes differ.

        Raises:
            DeviceFull: others hold the memory that the reference needs.
            EvaluatorError: the reference failed.
        """
        if self._last is None:
            return found
        baselines, queued = self.baselines.lay_out_alone(), self._last.batch.queued
        baselines.restore_queue()
        if self._kind == "cpu":
            return self._recheck_on_cpu(self._last, baselines)
        if self._may_be_slowed(found):
            baselines.set_solo(self.baselines.time_alone(baselines, baselines.count, queued))
        if self._lacks_spread(found):
            with self._or_assumed():
                self.baselines.compare_processes(baselines, queued=queued)
        return self._last.against(baselines.beside(queued))

    def _may_be_slowed(self, found: Measurement) -> bool:
        """Return whether the reference seems slowed on a GPU by a last candidate that was timed as it is."""
        is_alike = self._last is not None and self._last.batch.queued == self.baselines.measure().queued
        return found.contended and is_alike

    def _or_assumed(self) -> contextlib.AbstractContextManager[None]:
        """Do without a spread that cannot be measured, where one can be assumed: all else is known."""
        is_queued = self._last is not None and self._last.batch.queued
        return contextlib.suppress(EvaluatorError) if is_queued else contextlib.nullcontext()

    def _lacks_spread(self, found: Measurement) -> bool:
        """Return whether the last candidate's interval hangs on a spread between processes still unknown."""
        if self._last is None or self._kind == "cpu":
            return False
        queued = self._last.batch.queued
        return queued not in self.baselines.measure().spreads and needs_spread(found, queued=queued)

    def _recheck_on_cpu(self, last: TimedCandidate, baselines: Baselines) -> Measurement:
        """Time the baseline in the candidate's batches, again where it seems slowed: that may be chance."""
        batch, facts = last.batch, baselines.beside(last.batch.queued)
        for _ in range(policy.CPU_RECHECKS):
            alone = self.baselines.time_alone(baselines, batch.count, batch.queued)
            facts = replace(
                facts, solo_ms=alone.median_ms, solo_spread_ms=alone.spread_ms, just_measured=True
            )
            if not slowed(last.baseline, facts, batch.kind):
                break
        return last.against(facts)

    def _measure_again(self, first: TimedCandidate, candidate: CallBuffers) -> TimedCandidate:
        """Time a second process; if its claims disagree with the clock too, time it again without the gate.

        While calls are queued, a GPU stays for a time slice with streams that wait for each other, which
        looks like work. Without a gate launches are in the times: that result is taken only if it is faster,
        charges included, or if both others are in doubt.
        """
        known, launched = first, self._measure(candidate)
        if launched.batch.queued == first.batch.queued:
            again = launched.in_second_process(_LATE_ANSWER)
            if again.is_consistent:
                return again
            known = again if first.doubt and not again.doubt else first
            if candidate.gate is None:
                return known
            candidate.stop_queueing()
            launched = self._measure(candidate)
        is_faster = launched.measurement.speedup > known.measurement.speedup
        if launched.doubt or not (known.doubt or is_faster):
            return known
        return launched.in_second_process(_SLOW_BEHIND_GATE)

    def _measure(self, candidate: CallBuffers) -> TimedCandidate:
        """Time one process against the reference's; raises what `time` does."""
        began = time.monotonic()
        baselines = self.baselines.lay_out_beside_candidate()
        candidate.worker.extend(time.monotonic() - began)
        baselines.restore_queue()
        turns = self._sized_comparison(candidate, baselines)
        batch = turns.batch
        timing, baseline = candidate_timing(turns), trusted_timing(turns.baseline, batch)
        self._session.device.trim()
        found = measurement(timing, baseline, batch, baselines.beside(batch.queued))
        notes = () if batch.queued == baselines.queued else (_UNQUEUED,)
        return TimedCandidate(timing, baseline, batch, found, notes, doubt=forged_clock(turns))

    def _sized_comparison(self, candidate: CallBuffers, baselines: Baselines) -> PairedTurns:
        """Compare both in batches that are long enough for the referee's clock."""
        sizer, too_short, eager = self._session.sizer, 0, baselines.eager
        usual_ms = baselines.facts.solo_ms
        if eager.gate is None:
            candidate.stop_queueing()  # both are queued, or neither
        elif candidate.gate is not None:
            candidate.gate.limit(eager.gate.capacity)
        step = self._session.context.driver.step
        with step("size"):
            wanted = sizer.size(candidate, usual_ms)
        while True:
            count = self._match_queues(candidate, eager, wanted)
            timer = self._session.timer(count, candidate.gate is not None)
            if self._kept:  # of an earlier comparison: they take a GPU's memory
                began = time.monotonic()
                self.compare_with_exact()
                candidate.worker.extend(time.monotonic() - began)
            try:
                with _told_apart(eager.worker), step("compare"):
                    turns = timer.compare(candidate, eager)
            except WrittenAhead:
                candidate.stop_queueing()
                wanted = sizer.size(candidate, usual_ms)
                continue
            self._kept += timer.take_kept()
            call_ms, count = turns.candidate_call_ms, turns.batch.count
            queued = candidate.gate is not None
            if queued and not sizer.is_long_enough(call_ms, count, usual_ms, eager):
                candidate.stop_queueing()
                wanted = sizer.wanted(call_ms, usual_ms)
                continue
            both = (candidate, eager) if queued else ()
            wanted = sizer.wanted(call_ms, usual_ms, *both)
            if wanted <= 2 * count:
                with _told_apart(eager.worker):
                    timer.add_lone_calls(turns, candidate, eager)
                self._kept += timer.take_kept()
                return turns
            # The candidate is faster than while its batches were sized: they are too short for the clock,
            # which leaves room for a lie. If that happens again, the largest batches are taken.
            too_short += 1
            if too_short >= policy.SIZINGS:
                wanted = sizer.wanted(0.0, usual_ms, *both)

    def _match_queues(self, candidate: CallBuffers, eager: CallBuffers, count: int) -> int:
        """Reduce a batch to as many calls as both workers queue; if one queues none, stop both queueing."""
        for buffers in (candidate, eager):
            if candidate.gate is not None:
                count = self._session.sizer.queueable(buffers, count)
        if eager.gate is None:
            candidate.stop_queueing()
        return count


@contextlib.contextmanager
def _told_apart(reference: WorkerProcess) -> Iterator[None]:
    """Tell the reference's failures from the candidate's, which may well have taken its memory."""
    reference.forget_failure()
    try:
        yield
    except CandidateFailed as failure:
        if reference.lost or (reference.failed and failure.status is not Status.OUT_OF_MEMORY):
            raise EvaluatorError(f"the reference failed beside a candidate: {failure.detail}") from failure
        raise
