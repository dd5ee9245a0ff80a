"""The clock: candidate and baseline in turns, on the same fresh inputs, under the referee's own stopwatch.

Per turn and side: an unscored warm-up, freeze, publish inputs and poison outputs, thaw, run, freeze, snapshot. The
other side is frozen throughout. The referee's time, less the calibrated cost of the protocol around no work,
bounds the contestant's claim; the claim scores only where the two agree.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from statistics import median

import torch

from evaluator.contestant.slots import Slot, stacked
from evaluator.devices import Device
from evaluator.evaluation import Measurement, Status, Timing
from evaluator.referee.ring import Recipe, Ring
from evaluator.referee.sides import Ran, Side, Verdict
from evaluator.referee.statistics import ratio_interval, spread

_AGREE_SHARE = 0.02
_AGREE_MS = {"cpu": 0.2, "cuda": 0.02}
_GROSS_SHARE = 0.7
_GROSS_MS = 1.0
_TIGHT = 0.01
_FEWEST_TURNS = 6
_HOPELESS = 0.1
_HOPELESS_TURNS = 3
_CALIBRATIONS = 5
_DEFERRED_MS = {"cpu": 0.5, "cuda": 0.1}


@dataclass(slots=True)
class Lane:
    """One side with its layout, and what its turns measured."""

    side: Side
    layout: str
    input_slots: list[Slot]
    output_slots: list[Slot]
    input_block: int
    output_block: int
    inner_ms: list[float] = field(default_factory=list)
    outer_ms: list[float] = field(default_factory=list)
    single_ms: list[float] = field(default_factory=list)
    calls: int = 0


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
        self._ring = ring
        self._schedule = schedule
        self._secret = secret
        self._cost_ms: dict[int, float] = {}

    def duel(self, candidate: Lane, baseline: Lane) -> None:
        """Take turns until the interval is tight, the candidate hopeless, or the turns used up.

        Raises:
            Verdict: a timed output is wrong, or the candidate failed or hung.
        """
        self._calibrate(baseline)
        while not self._enough(candidate, baseline):
            self._turn(candidate, baseline, self._schedule.count)
            if len(candidate.outer_ms) % 2 or self._secret.random() < 0.5:
                self._turn(candidate, baseline, 1)

    def solo(self, baseline: Lane, turns: int) -> None:
        """Time one side by itself."""
        self._calibrate(baseline)
        for _ in range(turns):
            recipe = self._ring.recipe(self._schedule.count)
            self._record(baseline, self._visit(baseline, recipe)[0], self._schedule.count)

    def _calibrate(self, baseline: Lane) -> None:
        """What the protocol costs around no work: the same messages, loop and collection by the trusted side."""
        for count in {self._schedule.count, 1}:
            self._visit(baseline, self._ring.recipe(count))
            costs = []
            for _ in range(_CALIBRATIONS):
                baseline.side.thaw()
                ran = self._ran(baseline, "null", count)
                costs.append(ran.outer_ms - ran.inner_ms)
            self._cost_ms[count] = median(costs)

    def _turn(self, candidate: Lane, baseline: Lane, count: int) -> None:
        recipe = self._ring.recipe(count)
        lanes = [candidate, baseline]
        self._secret.shuffle(lanes)
        outputs: dict[int, list[torch.Tensor]] = {}
        for lane in lanes:
            ran, outputs[id(lane)] = self._visit(lane, recipe)
            self._record(lane, ran, count)
        complaint = self._ring.disagreement(outputs[id(candidate)], outputs[id(baseline)], recipe)
        if complaint:
            raise Verdict(Status.WRONG_VALUES, f"right when verified, wrong when timed: {complaint}")

    def _visit(self, lane: Lane, recipe: Recipe) -> tuple[Ran, list[torch.Tensor]]:
        """One side's turn; returns its times and a private copy of its outputs."""
        side, count = lane.side, recipe.count
        side.thaw()
        if lane.calls:
            self._ran(lane, "m", max(1, count // 8))
        side.freeze()
        outputs = side.blocks[lane.output_block].data
        self._ring.publish(side.blocks[lane.input_block].data, lane.input_slots, recipe)
        outputs.fill_(0xFF)
        self._device.flush_cache()
        self._device.synchronize()
        side.thaw()
        ran = self._ran(lane, "m", count)
        # Freezing stops host threads at once but takes a moment; it does not stop a queued GPU kernel.
        if self._kind == "cpu":
            side.freeze()
        copies = [stacked(outputs, slot, 0, count).clone() for slot in lane.output_slots]
        self._device.synchronize()
        side.freeze()
        lane.calls += count
        return ran, copies

    def _ran(self, lane: Lane, model: str, count: int) -> Ran:
        ran = lane.side.run(
            lane.layout,
            model=model,
            first=0,
            count=count,
            timeout_s=self._schedule.call_timeout_s * max(1.0, count / 8),
        )
        if ran.complaint:
            raise Verdict(Status.WRONG_SHAPE if ran.kind == "shape" else Status.WRONG_DTYPE, ran.complaint)
        return ran

    def _record(self, lane: Lane, ran: Ran, count: int) -> None:
        net = max(ran.outer_ms - self._cost_ms[count], 1e-6)
        if count != self._schedule.count:
            lane.single_ms.append(net)
            return
        lane.inner_ms.append(ran.inner_ms)
        lane.outer_ms.append(net)
        if count == 1:
            lane.single_ms.append(net)

    def _enough(self, candidate: Lane, baseline: Lane) -> bool:
        turns = len(candidate.outer_ms)
        if turns >= self._schedule.max_turns:
            return True
        if turns >= _HOPELESS_TURNS and median(baseline.outer_ms) < _HOPELESS * median(candidate.outer_ms):
            return True
        if turns < _FEWEST_TURNS or sum(candidate.outer_ms) < self._schedule.target_ms:
            return False
        interval = ratio_interval(baseline.outer_ms, candidate.outer_ms)
        return interval.high - interval.low <= 2 * _TIGHT * interval.low

    def timing(self, lane: Lane, *, solo_ms: float | None = None) -> Timing:
        """Sum a side's turns up; the claim scores only where it agrees with our clock."""
        count = self._schedule.count
        inner, outer = median(lane.inner_ms), median(lane.outer_ms)
        agrees = abs(inner - outer) <= _AGREE_SHARE * outer + _AGREE_MS[self._kind]
        per_turn = [value / count for value in (lane.inner_ms if agrees else lane.outer_ms)]
        return Timing(
            median_ms=median(per_turn),
            spread_ms=spread(per_turn),
            turns=len(per_turn),
            calls=len(per_turn) * count,
            inner_ms=inner / count,
            outer_ms=outer / count,
            single_ms=median(lane.single_ms) if lane.single_ms else None,
            clock="inner" if agrees else "outer",
            solo_ms=solo_ms,
        )

    def check_claims(self, lane: Lane) -> None:
        """A claim far below our clock, turn after turn, is a forged clock.

        Raises:
            Verdict: `TAMPERED`.
        """
        gross = [
            inner < _GROSS_SHARE * outer - _GROSS_MS
            for inner, outer in zip(lane.inner_ms, lane.outer_ms, strict=True)
        ]
        if sum(gross) >= max(2, len(gross) - 1):
            raise Verdict(
                Status.TAMPERED,
                f"the process claims {median(lane.inner_ms):.3f} ms where our clock saw "
                f"{median(lane.outer_ms):.3f} ms, in {sum(gross)} of {len(gross)} turns",
            )

    def deferred_ms(self, candidate: Lane, baseline: Lane) -> float:
        """How much more a lone call costs than a call in a batch, beyond what the baseline shows: merged work."""
        if not (candidate.single_ms and baseline.single_ms) or self._schedule.count == 1:
            return 0.0
        own = median(candidate.single_ms) - median(candidate.outer_ms) / self._schedule.count
        usual = median(baseline.single_ms) - median(baseline.outer_ms) / self._schedule.count
        excess = own - max(usual, 0.0)
        floor = _DEFERRED_MS[self._kind] + 1.5 * median(candidate.outer_ms) / self._schedule.count
        return excess if excess > floor else 0.0


def batch_size(call_ms: float, reference_ms: float, *, batch_ms: float, most: int) -> int:
    """Calls in a batch: long enough for the clock, within memory, and bearable for the slower side."""
    wanted = math.ceil(batch_ms / max(call_ms, 1e-3))
    bearable = math.ceil(10 * batch_ms / max(reference_ms, 1e-3))
    return max(1, min(wanted, bearable, most))


def measurement(
    clock: Clock, candidate: Lane, baseline: Lane, *, count: int, compile_ratio: float | None, solo_ms: float
) -> Measurement:
    """The record of a duel; the headline is against the fastest baseline."""
    ours = clock.timing(candidate)
    eager = clock.timing(baseline, solo_ms=solo_ms)
    if clock.deferred_ms(candidate, baseline) and ours.single_ms is not None:
        ours = ours.model_copy(update={"median_ms": ours.single_ms, "clock": "single"})
    baselines = {"eager": eager}
    if compile_ratio is not None:
        baselines["compile"] = eager.model_copy(
            update={
                "median_ms": eager.median_ms * compile_ratio,
                "outer_ms": eager.outer_ms * compile_ratio,
                "inner_ms": None,
                "single_ms": None,
                "solo_ms": None,
                "clock": "scaled",
            }
        )
    against = min(baselines, key=lambda name: baselines[name].median_ms)
    speedups = {name: timing.median_ms / max(ours.median_ms, 1e-9) for name, timing in baselines.items()}
    turns = {
        "candidate": tuple(value / count for value in candidate.outer_ms),
        "eager": tuple(value / count for value in baseline.outer_ms),
    }
    raw = ratio_interval(turns["eager"], turns["candidate"])
    middle = median(turns["eager"]) / median(turns["candidate"])
    shift = speedups[against] / middle
    return Measurement(
        candidate=ours,
        baselines=baselines,
        speedups=speedups,
        against=against,
        speedup=speedups[against],
        interval=raw.model_copy(update={"low": raw.low * shift, "high": raw.high * shift}),
        noise_floor=_noise_floor(turns["eager"]),
        calls_per_batch=count,
        ring_slots=count,
        turn_ms=turns,
    )


def _noise_floor(turns: tuple[float, ...]) -> float | None:
    """Half-width of the interval of the baseline's odd turns against its even ones."""
    odd, even = turns[::2], turns[1::2]
    if len(even) < 2:
        return None
    interval = ratio_interval(odd[: len(even)], even)
    return (interval.high - interval.low) / 2
