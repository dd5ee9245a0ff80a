"""The clock: candidate and baseline in turns, on the same fresh inputs, under the referee's own stopwatch.

Per turn and side: unscored warm-up, freeze, publish inputs and poison outputs, thaw, run, freeze, snapshot.
The other side is frozen throughout. What the trusted baseline's own events leave of the referee's time is the
honest cost of the protocol (messages, loop, collection of the same bytes); the contestant's claim scores only
where it leaves no more than that. What it leaves beyond is added to it.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import torch

from evaluator.contestant.slots import Slot, stacked
from evaluator.devices import Device
from evaluator.evaluation import Interval, Measurement, Status, Timing
from evaluator.referee.ring import Recipe, Ring
from evaluator.referee.sides import Ran, Side, Verdict
from evaluator.referee.statistics import quantile, ratio_interval, spread, widened
from evaluator.referee.witness import Sample, busy

_AGREE_SHARE: Final = 0.02
_AGREE_MS: Final = {"cpu": 0.05, "cuda": 0.02}
_GROSS_SHARE: Final = 0.5
_GROSS_MS: Final = 2.0
_GROSS_TURNS: Final = 5
_NOISE_FACTOR: Final = 4.0
_DOUBT_SHARE: Final = 0.05
_TIGHT: Final = {"cpu": 0.03, "cuda": 0.01}
"""Half-width of the interval, relative, at which measuring on would tell little more."""
_LOOKS: Final = 1.5
"""How many times more turns until the interval is looked at again: each look may stop too early."""
_FEWEST_TURNS: Final = 6
_MOST_SINGLES: Final = 6
_HOPELESS: Final = 0.1
_HOPELESS_TURNS: Final = 4
_WALL_S: Final = {"cpu": 6.0, "cuda": 20.0}
_SLOW_MS: Final = 500.0
_QUANTILE: Final = {"cpu": 0.25, "cuda": 0.5}
"""The median of the turns; on a CPU, whose cores are never ours alone, of the quicker half."""
_MORE_TURNS: Final = {"cpu": 3, "cuda": 1}
"""A CPU's turns are short, to slip between its other users' time slices, and therefore more."""
_PROBES: Final = {"cpu": 3, "cuda": 2}
_DEFERRED_MS: Final = {"cpu": 0.1, "cuda": 0.1}
_DEFERRED_SHARE: Final = 0.25
_CONTENDED: Final = 1.05
_SELF_FLUSHING_BYTES: Final = 96 << 20


@dataclass(slots=True)
class Lane:
    """One side with its layout, and what its turns measured."""

    side: Side
    layout: str
    input_slots: list[Slot]
    output_slots: list[Slot]
    input_block: int
    output_block: int
    turns: list[Ran] = field(default_factory=list)
    """Full batches, in order."""
    singles: list[Ran] = field(default_factory=list)
    """Unannounced batches of one call."""
    published_ms: list[float] = field(default_factory=list)
    """What it took to publish the inputs of each full batch while the side was frozen."""
    calls: int = 0
    """Most calls of a batch so far; memory beyond was never given inputs."""

    def forget(self) -> None:
        """Drop what was measured; the layout stays."""
        self.turns, self.singles, self.published_ms = [], [], []


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how often to measure."""

    count: int
    """Calls per batch."""
    target_ms: float
    max_turns: int
    call_timeout_s: float


class Clock:
    """Measures one candidate against one baseline."""

    def __init__(self, device: Device, ring: Ring, schedule: Schedule, secret: random.Random) -> None:
        self._device = device
        self._kind = device.torch_device.type
        self._quantile = _QUANTILE[self._kind]
        self._ring = ring
        self._schedule = schedule
        self._secret = secret
        self._started = time.monotonic()
        self._look = _FEWEST_TURNS * _MORE_TURNS[self._kind]

    def duel(self, candidate: Lane, baseline: Lane) -> None:
        """Take turns until the interval is tight, the candidate hopeless, or turns or time used up.

        Raises:
            Verdict: a timed output is wrong, or the candidate failed or hung.
        """
        self._started = time.monotonic()
        while not self._enough(candidate, baseline):
            self._turn(candidate, baseline, self._schedule.count)
            if self._schedule.count > 1 and self._wants_single(candidate):
                self._turn(candidate, baseline, 1)

    def solo(self, baseline: Lane, turns: int) -> None:
        """Time one side by itself."""
        for _ in range(turns * _MORE_TURNS[self._kind]):
            ran, _ = self._visit(baseline, self._ring.recipe(self._schedule.count))
            baseline.turns.append(ran)

    def probe(self, lane: Lane) -> float:
        """Milliseconds a call takes at best in a few turns; of a slow side, in the first."""
        taken: list[float] = []
        while len(taken) < _PROBES[self._kind] and max(taken, default=0.0) < _SLOW_MS:
            ran, _ = self._visit(lane, self._ring.recipe(self._schedule.count))
            taken.append(ran.inner_ms)
        return min(taken) / self._schedule.count

    def call_ms(self, lane: Lane) -> float:
        """What a call of a trusted side takes."""
        return self._typical([ran.inner_ms for ran in lane.turns]) / self._schedule.count

    def outer_ms(self, lane: Lane) -> float:
        """What a call of any side takes at most, by our clock."""
        return self._typical([ran.outer_ms for ran in lane.turns]) / self._schedule.count

    def ratio(self, numerator: Sequence[float], denominator: Sequence[float]) -> tuple[float, Interval]:
        """The ratio of what two sides' turns stand for, with its interval."""
        middle = self._typical(numerator) / max(self._typical(denominator), 1e-9)
        return middle, ratio_interval(numerator, denominator, share=self._quantile)

    def _wants_single(self, candidate: Lane) -> bool:
        """Never announced: about every other turn, surely twice by the end."""
        done, turns = len(candidate.singles), len(candidate.turns)
        return done < _MOST_SINGLES and (done < turns // 3 or self._secret.random() < 0.3)

    def _turn(self, candidate: Lane, baseline: Lane, count: int) -> None:
        """Both sides once, in random order, on the same inputs."""
        recipe = self._ring.recipe(count)
        lanes = [candidate, baseline]
        self._secret.shuffle(lanes)
        outputs: dict[int, list[torch.Tensor]] = {}
        for lane in lanes:
            ran, outputs[id(lane)] = self._visit(lane, recipe)
            (lane.turns if count == self._schedule.count else lane.singles).append(ran)
        complaint = self._ring.disagreement(outputs[id(candidate)], outputs[id(baseline)], recipe)
        if complaint:
            raise Verdict(Status.WRONG_VALUES, f"right when verified, wrong when timed: {complaint}")

    def _visit(self, lane: Lane, recipe: Recipe) -> tuple[Ran, list[torch.Tensor]]:
        """One side's turn; returns its times and a private copy of its outputs."""
        side, count = lane.side, recipe.count
        if lane.calls:
            self._ran(lane, max(1, min(count // 8, lane.calls)))
        side.freeze()
        outputs = side.blocks[lane.output_block].data
        written = Sample(outputs, lane.output_slots, count, self._secret)
        self._device.synchronize()
        began = time.perf_counter()
        self._ring.publish(side.blocks[lane.input_block].data, lane.input_slots, recipe)
        given = Sample(side.blocks[lane.input_block].data, lane.input_slots, count, self._secret)
        given.look()
        for slot in lane.output_slots:
            end = slot["offset"] + slot["pitch"] * count
            outputs[slot["offset"] : end].fill_(0xFF)
        if outputs.numel() < _SELF_FLUSHING_BYTES:
            self._device.flush_cache()
        self._device.synchronize()
        if count == self._schedule.count:
            lane.published_ms.append((time.perf_counter() - began) * 1e3)
        side.before_collecting = lambda: self._withdraw(lane, given, recipe)
        ran = self._ran(lane, count)
        side.before_collecting = None
        # Freezing stops host threads at once but takes a moment; it does not stop a queued GPU kernel.
        if self._kind == "cpu":
            side.freeze()
        written.look()
        copies = [stacked(outputs, slot, 0, count).clone() for slot in lane.output_slots]
        self._device.synchronize()
        side.freeze()
        if written.moved():
            raise Verdict(Status.TAMPERED, "outputs still changed after the process had answered")
        lane.calls = max(lane.calls, count)
        return ran, copies

    def _withdraw(self, lane: Lane, given: Sample, recipe: Recipe) -> None:
        """Take the inputs away once the calls are over: nothing is left to compute while collecting."""
        lane.side.freeze()
        if self._ring.inputs_stay and given.moved():
            raise Verdict(Status.INPUT_MUTATED, "inputs were changed by a timed call")
        self._ring.withdraw(lane.side.blocks[lane.input_block].data, lane.input_slots, recipe)
        self._device.synchronize()

    def _ran(self, lane: Lane, count: int) -> Ran:
        ran = lane.side.run(
            lane.layout,
            model="m",
            first=0,
            count=count,
            timeout_s=self._schedule.call_timeout_s * max(1.0, count / 8),
        )
        if ran.complaint:
            raise Verdict(Status.WRONG_SHAPE if ran.kind == "shape" else Status.WRONG_DTYPE, ran.complaint)
        return ran

    def _enough(self, candidate: Lane, baseline: Lane) -> bool:
        turns, more = len(candidate.turns), _MORE_TURNS[self._kind]
        if turns >= self._schedule.max_turns * more:
            return True
        theirs = [ran.inner_ms for ran in baseline.turns]
        ours = [ran.inner_ms for ran in candidate.turns]
        if turns >= _HOPELESS_TURNS and self._typical(theirs) < _HOPELESS * self._typical(ours):
            return True
        if turns < _FEWEST_TURNS * more:
            return False
        if time.monotonic() - self._started > _WALL_S[self._kind]:
            return True
        if turns < self._look or sum(ran.outer_ms for ran in candidate.turns) < self._schedule.target_ms:
            return False
        self._look = math.ceil(turns * _LOOKS)
        interval = ratio_interval(theirs, self._scored(candidate, baseline)[0], share=self._quantile)
        return interval.high - interval.low <= 2 * _TIGHT[self._kind] * interval.low

    def _typical(self, values: Sequence[float]) -> float:
        return quantile(values, self._quantile)

    def _scored(self, candidate: Lane, baseline: Lane) -> tuple[list[float], str]:
        """The candidate's time of each turn, and the clock it is from."""
        excess = self._excess_ms(candidate, baseline)
        claimed = [ran.inner_ms for ran in candidate.turns]
        # Noise may excuse a little, but where it could hide the work itself only our clock is left.
        doubt = min(
            self._noise_ms(baseline), _DOUBT_SHARE * self._typical([ran.outer_ms for ran in candidate.turns])
        )
        if excess <= _AGREE_SHARE * self._typical(claimed) + _AGREE_MS[self._kind] + doubt:
            return claimed, "inner"
        return [value + excess for value in claimed], "outer"

    def _excess_ms(self, candidate: Lane, baseline: Lane) -> float:
        """What the candidate's claims leave of our clock, and collecting, beyond the trusted side's."""
        ours, theirs = ([ran.collect_ms for ran in lane.turns] for lane in (candidate, baseline))
        collecting = self._typical(ours) - self._typical(theirs)
        return (
            self._typical(_left(candidate.turns))
            - self._typical(_left(baseline.turns))
            + max(0.0, collecting)
        )

    def _noise_ms(self, baseline: Lane) -> float:
        """How far the trusted side's own remainder wanders, as an error of its median."""
        return _NOISE_FACTOR * spread(_left(baseline.turns)) / math.sqrt(len(baseline.turns))

    def timing(self, candidate: Lane, baseline: Lane, *, solo_ms: float) -> tuple[Timing, Timing]:
        """Sum both sides' turns up, per call."""
        scored, clock = self._scored(candidate, baseline)
        ours = self._summary(candidate, scored, clock)
        if clock == "inner" and self.deferred_ms(candidate, baseline) and ours.single_ms is not None:
            ours = ours.model_copy(update={"median_ms": ours.single_ms, "clock": "single"})
        trusted = [ran.inner_ms for ran in baseline.turns]
        return ours, self._summary(baseline, trusted, "inner").model_copy(update={"solo_ms": solo_ms})

    def _summary(self, lane: Lane, scored: list[float], clock: str) -> Timing:
        count = self._schedule.count
        singles = [ran.outer_ms for ran in lane.singles]
        return Timing(
            median_ms=self._typical(scored) / count,
            spread_ms=spread(scored) / count,
            turns=len(scored),
            calls=len(scored) * count,
            inner_ms=self._typical([ran.inner_ms for ran in lane.turns]) / count,
            outer_ms=self._typical([ran.outer_ms for ran in lane.turns]) / count,
            single_ms=self._typical(singles) if singles else None,
            clock=clock,
            turn_ms=tuple(value / count for value in scored),
        )

    def contended(self, eager: Timing) -> bool:
        """Whether a GPU ran the baseline slower beside this contestant than alone, beyond its noise.

        What a contestant has queued on a GPU goes on while its threads are stopped.
        """
        alone_ms = eager.solo_ms or 0.0
        return self._kind == "cuda" and eager.median_ms > _CONTENDED * alone_ms + 3 * eager.spread_ms

    def check_claims(self, candidate: Lane, baseline: Lane) -> None:
        """Claims far below our clock, turn after turn, are a forged clock; a stopped process does not work.

        Raises:
            Verdict: `TAMPERED`.
        """
        if self._kind == "cuda" and (why := busy(candidate.published_ms, baseline.published_ms)):
            raise Verdict(Status.TAMPERED, why)
        usual = max(_left(baseline.turns))
        gross = [
            left > _GROSS_SHARE * max(ran.inner_ms, 0.0) + 2 * usual + _GROSS_MS
            for ran, left in zip(candidate.turns, _left(candidate.turns), strict=True)
        ]
        if len(gross) >= _GROSS_TURNS and all(gross):
            claimed = median(ran.inner_ms for ran in candidate.turns)
            seen = median(ran.outer_ms for ran in candidate.turns)
            raise Verdict(
                Status.TAMPERED,
                f"the process claims {claimed:.3f} ms where our clock saw {seen:.3f} ms, "
                f"in each of {len(gross)} turns",
            )

    def deferred_ms(self, candidate: Lane, baseline: Lane) -> float:
        """How much more a lone call costs than a batched one, beyond the baseline's: merged work."""
        if len(candidate.singles) < 2 or len(baseline.singles) < 2:
            return 0.0
        count = self._schedule.count

        def lone(lane: Lane, worst: Callable[[list[float]], float]) -> float:
            batched = self._typical([ran.outer_ms for ran in lane.turns]) / count
            return worst([ran.outer_ms for ran in lane.singles]) - batched

        # Merged work costs every lone call in full, noise does not: the candidate's best against our worst.
        excess = lone(candidate, min) - max(lone(baseline, max), 0.0)
        batched = self._typical([ran.outer_ms for ran in candidate.turns]) / count
        floor = _DEFERRED_MS[self._kind] + _DEFERRED_SHARE * batched
        return excess if excess > floor else 0.0


def _left(turns: list[Ran]) -> list[float]:
    """What claims leave of the referee's clock."""
    return [ran.outer_ms - ran.inner_ms for ran in turns]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a baseline beside its turns."""

    solo_ms: float
    """Alone, before any contestant ran."""
    compile_ratio: float | None
    """Compiled time over eager time; None when not wanted or when it cannot be compiled."""
    process_spread: float | None
    """Relative standard deviation between processes of the reference; None where it was not measured."""


def measurement(clock: Clock, candidate: Lane, baseline: Lane, *, count: int, known: Known) -> Measurement:
    """The record of a duel; the headline is against the fastest baseline."""
    ours, eager = clock.timing(candidate, baseline, solo_ms=known.solo_ms)
    contended = clock.contended(eager)
    if contended:
        eager = eager.model_copy(update={"median_ms": known.solo_ms})
    compile_ratio = known.compile_ratio
    baselines = {"eager": eager}
    if compile_ratio is not None:
        baselines["compile"] = Timing(
            median_ms=eager.median_ms * compile_ratio,
            spread_ms=eager.spread_ms * compile_ratio,
            turns=eager.turns,
            calls=eager.calls,
            outer_ms=eager.outer_ms * compile_ratio,
            clock="scaled",
        )
    against = min(baselines, key=lambda name: baselines[name].median_ms)
    speedups = {name: timing.median_ms / max(ours.median_ms, 1e-9) for name, timing in baselines.items()}
    middle, raw = clock.ratio(eager.turn_ms, ours.turn_ms)
    shift = speedups[against] / max(middle, 1e-9)
    interval = Interval(low=raw.low * shift, high=raw.high * shift)
    if known.process_spread is not None:
        # A scaled baseline stands on two more processes: the compiled one, and eager beside it.
        timed = 2 if baselines[against] is eager else 4
        interval = widened(interval, speedups[against], spread=known.process_spread, processes=timed)
    return Measurement(
        candidate=ours,
        baselines=baselines,
        speedups=speedups,
        against=against,
        speedup=speedups[against],
        interval=interval,
        process_spread=known.process_spread,
        noise_floor=_noise_floor(clock, eager.turn_ms),
        calls_per_batch=count,
        ring_slots=count,
        contended=contended,
    )


def _noise_floor(clock: Clock, turns: tuple[float, ...]) -> float | None:
    """Half-width of the interval of the baseline's odd turns against its even ones."""
    odd, even = turns[::2], turns[1::2]
    if len(even) < 2:
        return None
    _, interval = clock.ratio(odd[: len(even)], even)
    return (interval.high - interval.low) / 2
