"""Timing a verified candidate: the baselines of a problem, made once, and the duel against them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from evaluator.config import EvaluationConfig
from evaluator.errors import EvaluatorError, ProblemError
from evaluator.evaluation import Measurement, Status, Timing
from evaluator.referee.clock import Clock, Lane, Schedule
from evaluator.referee.errorscale import limit
from evaluator.referee.lanes import Construction, Ground, call_bytes, construct, lay_out, load, start, write
from evaluator.referee.ring import Ring
from evaluator.referee.scoring import Known, measurement
from evaluator.referee.sides import Side, Verdict
from evaluator.referee.statistics import PROCESSES, process_spread
from evaluator.referee.trials import TrialPool

_BATCH_MS = {"cpu": 5.0, "cuda": 50.0}
_MOST_CALLS = 4096
_LEAD = {"cpu": 0, "cuda": 1}
"""Unscored calls that a batch begins with: launching the first kernel takes a host as long as tens of
microseconds of work, and more while its cores are busy, which a batch short of memory does not dilute."""
_MEMORY_SHARE = 0.05
_MEMORY_BYTES = {"cpu": 192 << 20, "cuda": 6 << 30}
"""For a side's timed calls. What keeps a GPU busy for less than a few milliseconds leaves our clock, which
wanders by tenths of one, too much to say."""
_SOLO_TURNS = 9
_WARM_TURNS = 3
_RATIO_TURNS = 6
_SIZINGS = 4
_COMPILE_S = 300.0
_REFERENCE_S = 120.0
_DRIFT = {"cpu": 0.5, "cuda": 0.05}
"""How far, relative, a ratio may be uncertain, and the reference's own time move, until the ratio is measured
anew: on a CPU other users do that to times, and compiling takes a minute."""
_REMEMBERED = ("compile_ratio", "compile_error", "compile_solo_ms", "process_spread")
_ASKED_AGAIN = {"cpu": False, "cuda": True}
"""Whether a second process is asked where claims are doubted. On a CPU what is excused grows with what is
seen to wander, and starting a process takes longer than timing one."""
_FAILED = (Status.OUT_OF_MEMORY, Status.TIMED_OUT, Status.RUNTIME_ERROR, Status.COMPILE_ERROR)
"""What says nothing of a candidate that was right before, in a process beside its first."""
_COMPARED = {"cpu": 1, "cuda": PROCESSES}
"""Processes of the reference that are compared. On a CPU, whose cores are never ours alone, its other users
move times far more than that, turn by turn, and it would cost seconds of work instead of waiting."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """A problem's reference on this device."""

    eager: Lane
    known: Known


class Timer:
    """Times the candidates of one problem; owns the baseline process."""

    def __init__(
        self, ground: Ground, pool: TrialPool, config: EvaluationConfig, secret: random.Random
    ) -> None:
        self._ground = ground
        self._pool = pool
        self._config = config
        self._secret = secret
        self._kind = ground.device.torch_device.type
        first = pool.draws[0]
        self._ring = Ring(
            pool.starts(),
            pool.fresh,
            secret=secret,
            limit=limit(config.math.value, zero_mean=False, terms=pool.terms),
            inputs_stay=not ground.reference.mutates(first.model, pool.bases[0].arguments),
        )
        self._base = pool.bases[0]
        self._most = self._most_calls()
        self._lead = min(_LEAD[self._kind], self._most - 1)
        self._baselines: Baselines | None = None
        self._started: list[Side] = []
        """Processes with the reference in them; memory for timed calls is taken by one after the other."""
        self._compiled: Lane | None = None
        self._judge: Callable[[Known], Measurement] | None = None
        """What the last duel comes to, from what is known of the baseline."""
        self.notes: list[str] = []

    def baselines(self) -> Baselines:
        """The reference alone: made on first use, kept for every candidate.

        Raises:
            ProblemError: the reference does not run in its sandbox.
        """
        if self._baselines is None:
            try:
                self._baselines = self._measure_baselines()
            except Verdict as verdict:
                raise ProblemError(f"the reference failed in its sandbox: {verdict.detail}") from verdict
        return self._baselines

    @property
    def knows_baselines(self) -> bool:
        """Whether `baselines` has nothing left to do."""
        return self._baselines is not None

    def start_baselines(self) -> None:
        """Start the processes that `baselines` will time, while others may still use the device.

        Raises:
            ProblemError: the reference does not run in its sandbox.
        """
        wanted = [False]
        if "compile" in self._config.baselines and self._recalled("compile_ratio") is None:
            wanted.append(True)
        if self._recalled("process_spread") is None:
            wanted += [False] * (_COMPARED[self._kind] - 1)
        try:
            self._ground.driver.call("expect", count=len(wanted))
            sides = [start(self._ground, role="baseline") for _ in wanted]
            self._ground.driver.call("hold", exclusive=False)
            for side, compiled in zip(sides, wanted, strict=True):
                self._furnish(side, compiled=compiled)
                if compiled:
                    self._compiled = self.lay_out(side)
                else:
                    self._started.append(side)
            if self._kind == "cuda":
                self._ground.driver.call("release")
            if self._compiled is not None:
                self._compile(self._compiled)
        except Verdict as verdict:
            if not self._started:
                raise ProblemError(f"the reference failed in its sandbox: {verdict.detail}") from verdict

    def time(self, lane: Lane, afresh: Callable[[], Lane]) -> Measurement:
        """Duel a verified candidate; where its claims are doubted once more, with one in a fresh process.

        Some processes answer later than others as long as they live, by tenths of a millisecond or a
        microsecond a call. Whoever hides work does so in every process: the first whose claims hold decides.

        Raises:
            Verdict: a timed output was wrong, the clock was forged, or the candidate failed.
            EvaluatorError: the reference failed, which is no fault of the candidate.
        """
        first = self._duel(lane)
        if first.candidate.clock == "inner" or not _ASKED_AGAIN[self._kind]:
            return first
        how = self._judge
        try:
            second = self._duel(afresh())
        except Verdict as verdict:
            if verdict.status not in _FAILED:
                raise
            second = first
        if second.candidate.clock != "inner":
            self._judge = how
            return first
        self.notes.append("timed in a second process: the first answered later than its claims explain")
        return second

    def _duel(self, lane: Lane) -> Measurement:
        """One process against the reference's; raises what `time` does."""
        baselines = self.baselines()
        eager = baselines.eager
        count = self._settle_count(lane, baselines.known.solo_ms)
        for _ in range(_SIZINGS):
            lane.forget()
            eager.forget()
            clock = Clock(self._ground.device, self._ring, self._schedule(count), self._secret)
            eager.side.failed = False
            try:
                clock.duel(lane, eager)
            except Verdict as verdict:
                self._blame(eager.side, verdict)
                raise
            wanted = self._batch(clock.outer_ms(lane), baselines.known.solo_ms)
            if wanted <= 2 * count:
                break
            # Slower while its batches were sized than since: short ones would leave room for a lie.
            count = wanted
        clock.check_claims(lane, eager)
        ours, theirs = clock.timing(lane, eager)
        self._ground.device.trim()
        self._judge = partial(measurement, clock, ours, theirs, count)
        return self._judge(baselines.known)

    def settled(self, found: Measurement) -> Measurement:
        """The record of the last duel once its candidate is gone: was a slower baseline its doing?

        What the baseline takes alone was measured long ago, and a GPU does not always run at one speed.

        Raises:
            EvaluatorError: the reference failed.
        """
        if not found.contended or self._judge is None or self._baselines is None:
            return found
        eager, known = self._baselines.eager, self._baselines.known
        try:
            eager.forget()
            alone = self._solo(eager, self._settle_count(eager, None))
        except Verdict as verdict:
            raise EvaluatorError(f"the reference failed by itself: {verdict.detail}") from verdict
        known = replace(known, solo_ms=alone.median_ms, solo_spread_ms=alone.spread_ms)
        self._baselines = Baselines(eager, known)
        return self._judge(known)

    def _blame(self, reference: Side, verdict: Verdict) -> None:
        """Keep from a candidate what happened to the reference; memory it may well have taken from it."""
        if reference.lost or (reference.failed and verdict.status is not Status.OUT_OF_MEMORY):
            raise EvaluatorError(f"the reference failed beside a candidate: {verdict.detail}") from verdict

    def close(self) -> None:
        """End the baseline process."""
        for side in self._started:
            side.close()
        if self._compiled is not None:
            self._compiled.side.close()
        if self._baselines is not None:
            self._baselines.eager.side.close()

    def _measure_baselines(self) -> Baselines:
        eager = self._reference_lane()
        count = self._settle_count(eager, None)
        alone = self._solo(eager, count)
        ratio = None
        if "compile" in self._config.baselines:
            ratio = self._compile_ratio(eager, count, solo_ms=alone.median_ms)
        others = self._process_spread(eager, count)
        return Baselines(eager, Known(alone.median_ms, alone.spread_ms, ratio, others))

    def _solo(self, eager: Lane, count: int) -> Timing:
        """The reference with nobody else around."""
        eager.forget()
        clock = Clock(self._ground.device, self._ring, self._schedule(count), self._secret)
        clock.solo(eager, _SOLO_TURNS)
        return clock.alone(eager)

    def _settle_count(self, lane: Lane, reference_ms: float | None) -> int:
        """Batch size from what a call takes: first alone, then in a small batch, which pipelines."""
        count = 1
        for _ in range(2):
            clock = Clock(self._ground.device, self._ring, self._schedule(count), self._secret)
            call_ms = max(clock.probe(lane), 1e-3)
            tried = count
            count = self._batch(call_ms, reference_ms or call_ms)
            if count == tried:
                break
        return count

    def _batch(self, call_ms: float, reference_ms: float) -> int:
        return batch_size(call_ms, reference_ms, batch_ms=_BATCH_MS[self._kind], most=self._most - self._lead)

    def _compile_ratio(self, eager: Lane, count: int, *, solo_ms: float) -> float | None:
        """Compiled over eager, measured in turns, or taken from this machine's cache."""
        stored = self._recalled("compile_ratio")
        if stored is not None and trusted(
            known_ms=self._recalled("compile_solo_ms"),
            error=self._recalled("compile_error"),
            solo_ms=solo_ms,
            most=_DRIFT[self._kind],
        ):
            return stored
        try:
            ratio, error = self._ratio_of(self._reference_lane(compiled=True), eager, count)
        except Verdict as verdict:
            self.notes.append(f"torch.compile failed: {verdict.detail[:300]}")
            return None
        self._remember(compile_ratio=ratio, compile_error=error, compile_solo_ms=solo_ms)
        return ratio

    def _process_spread(self, eager: Lane, count: int) -> float | None:
        """How much processes of the reference differ, measured in turns, or from this machine's cache."""
        stored = self._recalled("process_spread")
        others = _COMPARED[self._kind] - 1
        if stored is not None or not others:
            return stored
        ratios = [1.0]
        try:
            for _ in range(others):
                ratios.append(self._ratio_of(self._reference_lane(), eager, count)[0])
        except (Verdict, ProblemError) as error:
            self.notes.append(f"the spread between processes was not measured: {str(error)[:300]}")
            return None
        found = process_spread(ratios)
        self._remember(process_spread=found)
        return found

    def _ratio_of(self, lane: Lane, eager: Lane, count: int) -> tuple[float, float]:
        """Another process' time over that of the baseline kept, and its relative error; the process is ended.

        Raises:
            Verdict: it failed, hung, or answered otherwise than the baseline.
        """
        try:
            schedule = Schedule(
                count=count,
                target_ms=0.0,
                max_turns=_RATIO_TURNS,
                call_timeout_s=_REFERENCE_S,
                lead=self._lead,
            )
            clock = Clock(self._ground.device, self._ring, schedule, self._secret)
            clock.solo(lane, _WARM_TURNS)
            lane.forget()
            eager.forget()
            clock.duel(lane, eager)
            ratio, interval = clock.ratio(*([ran.inner_ms for ran in each.turns] for each in (lane, eager)))
            return ratio, (interval.high - interval.low) / 2 / ratio
        finally:
            lane.side.close()

    def _recalled(self, name: str) -> float | None:
        """A number this machine's cache holds about the problem."""
        stored = self._ground.driver.call("recall").get(name)
        return stored if isinstance(stored, float) else None

    def _remember(self, **found: float) -> None:
        """Add to what this machine's cache holds about the problem."""
        held = {name: self._recalled(name) for name in _REMEMBERED}
        kept = {name: value for name, value in held.items() if value is not None}
        self._ground.driver.call("remember", **kept | found)

    def _reference_lane(self, *, compiled: bool = False) -> Lane:
        """A process with the reference in it: one started ahead, if there is one."""
        if compiled and self._compiled is not None:
            lane, self._compiled = self._compiled, None
            return lane
        if self._started and not compiled:
            return self.lay_out(self._started.pop(0))
        side = start(self._ground, role="baseline")
        self._furnish(side, compiled=compiled)
        lane = self.lay_out(side)
        if compiled:
            self._compile(lane)
        return lane

    def _furnish(self, side: Side, *, compiled: bool) -> None:
        """Let a fresh process construct the reference."""
        load(self._ground, side, self._ground.reference.source, class_name="Model")
        draw = self._pool.draws[0]
        wanted = Construction("Model", "m", draw.seed, draw.vary, compiled=compiled)
        construct(self._ground, side, wanted)

    def _compile(self, lane: Lane) -> None:
        """A compiled model's first call, on inputs of the problem: zeros may be none."""
        write(lane.side, lane.input_slots, self._base.arguments.leaves, 0)
        self._ground.device.synchronize()
        lane.side.run(lane.layout, model="m", first=0, count=1, timeout_s=_COMPILE_S)

    def lay_out(self, side: Side) -> Lane:
        """Make room for the timed calls of model `m` of a side."""
        return lay_out(side, "time", self._base.arguments, self._base.expected.output, self._most)

    def _schedule(self, count: int) -> Schedule:
        slowest = self._baselines.known.solo_ms if self._baselines else 0.0
        return Schedule(
            count=count,
            target_ms=self._config.target_ms,
            max_turns=self._config.max_turns,
            call_timeout_s=self._config.limits.call_s + 10 * slowest / 1e3,
            lead=self._lead,
        )

    def _most_calls(self) -> int:
        size = call_bytes(self._base.arguments, self._base.expected.output)
        free = int(self._ground.device.free_bytes() * _MEMORY_SHARE)
        budget = min(_MEMORY_BYTES[self._kind], free)
        return self._ring.most_calls(max(1, min(_MOST_CALLS, budget // size)))


def batch_size(call_ms: float, reference_ms: float, *, batch_ms: float, most: int) -> int:
    """Calls in a batch: long enough for the clock, within memory, and bearable for the slower side."""
    wanted = math.ceil(batch_ms / max(call_ms, 1e-3))
    bearable = math.ceil(10 * batch_ms / max(reference_ms, 1e-3))
    return max(1, min(wanted, bearable, most))


def trusted(*, known_ms: float | None, error: float | None, solo_ms: float, most: float) -> bool:
    """Whether a ratio measured earlier still holds.

    `error` is its own, relative; the reference took `known_ms` when it was measured and takes `solo_ms` now.
    Neither may be off by more than `most`.
    """
    if known_ms is None or error is None:
        return False
    return error <= most and abs(solo_ms / known_ms - 1) <= most
