"""Timing a verified candidate: the duel against the baselines of its problem."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.timing.baselines import Baselines, BaselineTimer
from kernelwright.evaluator.referee.timing.interleaved_timer import InterleavedTimer
from kernelwright.evaluator.referee.timing.speedup import BaselineFacts, measurement
from kernelwright.evaluator.referee.timing.timing_session import TimingSession
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed, MeasurementDoubt
from kernelwright.evaluator.referee.worker.setup import ProblemContext
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import EvaluatorError
from kernelwright.evaluator.schema.evaluation import Measurement, Status

_SIZINGS: Final = 2
_ASKED_AGAIN: Final = {"cpu": False, "cuda": True}
"""Whether a second process is asked where claims are doubted. On a CPU what is excused grows with what is
seen to wander, and starting a process takes longer than timing one."""
_FAILED: Final = (Status.OUT_OF_MEMORY, Status.TIMED_OUT, Status.RUNTIME_ERROR, Status.COMPILE_ERROR)
"""What says nothing of a candidate that was right before, in a process beside its first."""


class CandidateTimer:
    """Times the candidates of one problem."""

    def __init__(
        self,
        ground: ProblemContext,
        pool: TrialPool,
        config: EvaluationConfig,
        secret: random.Random,
        *,
        insists: bool = False,
    ) -> None:
        """`insists` and raises as `TimingSession` does."""
        self._bench = TimingSession(ground, pool, config, secret, insists=insists)
        self._kind = self._bench.kind
        self.baselines = BaselineTimer(ground, pool, config, self._bench)
        self._judge: Callable[[BaselineFacts], Measurement] | None = None
        """What the last duel comes to, from what is known of the baseline."""
        self._queued = False
        """Whether its calls were."""
        self._notes: list[str] = []

    @property
    def notes(self) -> list[str]:
        """What a reader of the scores should know."""
        return [*self.baselines.notes, *self._notes]

    def lay_out(self, side: WorkerProcess) -> CallBuffers:
        """Make room for the timed calls of model `m` of a side."""
        return self._bench.lay_out(side)

    def time(self, lane: CallBuffers, afresh: Callable[[], CallBuffers]) -> Measurement:
        """Duel a verified candidate; where its claims are doubted once more, with one in a fresh process.

        Some processes answer later than others as long as they live, by tenths of a millisecond or a
        microsecond a call. Whoever hides work does so in every process: the first whose claims hold decides.
        Streams that wait for each other may begin late behind a gate: what is doubted there twice may be
        timed with its launches instead, if it gains by that.

        Raises:
            Verdict: a timed output was wrong, the clock was forged, or the candidate failed.
            EvaluatorError: the reference failed, which is no fault of the candidate.
        """
        self._notes = []
        first = self._heard(lane)
        if _believable(first) or not _ASKED_AGAIN[self._kind]:
            return _told(first)
        how = self._judge, self._queued, self._notes
        try:
            again = afresh()
            second, why = self._heard(again), "the first answered later than its claims explain"
            if not _believable(second) and again.gate is not None and not isinstance(first, MeasurementDoubt):
                again.gate = None
                second, why = self._heard(again), "behind a gate it took longer than its claims explain"
                if not isinstance(second, MeasurementDoubt) and second.speedup <= first.speedup:
                    second = first
        except CandidateFailed as verdict:
            if verdict.status not in _FAILED:
                raise
            second = first
        if not _believable(second):
            self._judge, self._queued, self._notes = how
            return _told(first)
        self._notes.append(f"timed in a second process: {why}")
        return _told(second)

    def _heard(self, lane: CallBuffers) -> Measurement | MeasurementDoubt:
        """What a duel comes to; raises what `time` does, but for doubts."""
        try:
            return self._duel(lane)
        except MeasurementDoubt as doubt:
            return doubt

    def _duel(self, lane: CallBuffers) -> Measurement:
        """One process against the reference's; raises what `time` does."""
        self._notes = []
        baselines = self.baselines.measure()
        baselines.restore_queue()
        clock, count = self._sized_duel(lane, baselines)
        queued = clock.queued
        clock.check_claims(lane, baselines.eager)
        ours, theirs = clock.timing(lane, baselines.eager)
        self._bench.device.trim()
        if queued != baselines.queued:
            self._notes.append("calls were not queued ahead of the clock: launching them is in their times")
        self._judge, self._queued = partial(measurement, clock, ours, theirs, count), queued
        return self._judge(baselines.beside(queued))

    def _sized_duel(self, lane: CallBuffers, baselines: Baselines) -> tuple[InterleavedTimer, int]:
        """A duel in batches that leave our clock enough to say, and their calls."""
        sizing, resized, eager = self._bench.sizing, 0, baselines.eager
        usual_ms = baselines.known.solo_ms
        if lane.gate is not None and eager.gate is not None:
            lane.gate.most = min(lane.gate.most, eager.gate.most)  # both are queued, or neither
        wanted = sizing.settle(lane, usual_ms)
        while True:
            count = self._queueable(lane, eager, wanted)
            queued = lane.gate is not None
            lane.forget()
            eager.forget()
            clock = self._bench.clock(count, queued)
            eager.worker.forget_failure()
            try:
                clock.duel(lane, eager)
            except CandidateFailed as verdict:
                self._blame(eager.worker, verdict)
                raise
            outer_ms = clock.outer_ms(lane)
            if queued and not sizing.tells(outer_ms, count, usual_ms, eager):
                lane.gate = None
                wanted = sizing.wanted(outer_ms, usual_ms)
                continue
            both = (lane, eager) if queued else ()
            wanted = sizing.wanted(outer_ms, usual_ms, *both)
            if wanted <= 2 * count:
                return clock, count
            # Slower while its batches were sized than since: short ones would leave room for a lie. Whoever
            # is so again gets the largest there are.
            resized += 1
            if resized >= _SIZINGS:
                wanted = sizing.wanted(0.0, usual_ms, *both)

    def _queueable(self, lane: CallBuffers, eager: CallBuffers, count: int) -> int:
        """So many calls, or as many as both sides queue ahead; where one cannot, neither does."""
        for side in (lane, eager):
            if lane.gate is not None:
                count = self._bench.sizing.queueable(side, count)
        if eager.gate is None:
            lane.gate = None
        return count

    def unsettled(self, found: Measurement) -> bool:
        """Whether `settled` has something to find out about the last duel."""
        baselines = self.baselines.measure()
        return found.contended or (self._queued != baselines.queued and not baselines.launching_compared)

    def settled(self, found: Measurement) -> Measurement:
        """The record of the last duel once its candidate is gone: was a slower baseline its doing?

        What the baseline takes alone was measured long ago, and a GPU does not always run at one speed.
        Beside whoever does not queue, how much launching differs between processes is found out first.

        Raises:
            EvaluatorError: the reference failed.
        """
        if not self.unsettled(found) or self._judge is None:
            return found
        baselines, queued = self.baselines.measure(), self._queued
        baselines.restore_queue()
        if queued != baselines.queued:
            self.baselines.compare_launching()
            return self._judge(baselines.beside(queued))
        try:
            alone = self.baselines.alone(baselines.eager, baselines.count, queued)
        except CandidateFailed as verdict:
            raise EvaluatorError(f"the reference failed by itself: {verdict.detail}") from verdict
        baselines.known = replace(baselines.known, solo_ms=alone.median_ms, solo_spread_ms=alone.spread_ms)
        return self._judge(baselines.beside(queued))

    def _blame(self, reference: WorkerProcess, verdict: CandidateFailed) -> None:
        """Keep from a candidate what happened to the reference; memory it may well have taken from it."""
        if reference.lost or (reference.failed and verdict.status is not Status.OUT_OF_MEMORY):
            raise EvaluatorError(f"the reference failed beside a candidate: {verdict.detail}") from verdict

    def close(self) -> None:
        """End the baselines' processes."""
        self.baselines.close()


def _believable(outcome: Measurement | MeasurementDoubt) -> bool:
    return not isinstance(outcome, MeasurementDoubt) and outcome.candidate.clock == "inner"


def _told(outcome: Measurement | MeasurementDoubt) -> Measurement:
    if isinstance(outcome, MeasurementDoubt):
        raise outcome
    return outcome
