"""The clock: candidate and baseline in turns, on the same fresh inputs, under the referee's own stopwatch.

The other side is frozen throughout a turn. What the trusted baseline's own events leave of the referee's time
is the honest cost of the protocol (messages, loop, collection of the same bytes); the contestant's claim
scores only where it leaves no more than that. What it leaves beyond is added to it, and where batches are so
short that our clock cannot tell, so is what it wanders: what is excused is a share of what our clock saw.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import torch

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.referee.correctness.discontinuities import FlippedElements
from kernelwright.evaluator.referee.timing.clock_discrepancy import (
    CallTimes,
    TimeExcess,
    error,
    longer,
    merged,
)
from kernelwright.evaluator.referee.timing.statistics import quantile, ratio_interval, spread
from kernelwright.evaluator.referee.timing.tamper_checks import busy
from kernelwright.evaluator.referee.timing.timed_inputs import InputRecipe, TimedInputs
from kernelwright.evaluator.referee.timing.timed_turn import TurnRunner
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed, MeasurementDoubt
from kernelwright.evaluator.referee.worker.timed_run import RunResult
from kernelwright.evaluator.schema.evaluation import Interval, Status, Timing

_AGREE_SHARE: Final = 0.02
_AGREE_MS: Final = {"cpu": 0.05, "cuda": 0.1}
"""By our clock processes of the same code differ: one answers 0.08 ms later as long as it lives."""
_GROSS_SHARE: Final = 0.5
_GROSS_MS: Final = 2.0
_GROSS_TURNS: Final = 5
_DOUBT_SHARE: Final = 0.05
"""Of what our clock saw of the calls: neither noise nor an odd process excuses more."""
_TOLD_SHARE: Final = 0.25
"""Where our clock wanders by more of what it saw, it tells nothing, and claims are worth nothing."""
_TIGHT: Final = {"cpu": 0.03, "cuda": 0.01}
"""Half-width of the interval, relative, at which measuring on would tell little more."""
_LOOKS: Final = 1.5
"""How many times more turns until the interval is looked at again: each look may stop too early."""
_FEWEST_TURNS: Final = 6
_FEWEST_SINGLES: Final = 2
_MOST_SINGLES: Final = 6
_SHORT_MS: Final = 0.5
_MOST_SHORT_SINGLES: Final = 36
"""Of short calls, where what is to be seen is less than what our clock wanders."""
_MOST_QUEUED_SINGLES: Final = 16
"""The same where launches are over before: the claims of lone calls hardly wander then."""
_HOPELESS: Final = 0.1
_HOPELESS_TURNS: Final = 4
_WALL_S: Final = {"cpu": 6.0, "cuda": 20.0}
_SLOW_MS: Final = 500.0
_QUANTILE: Final = {"cpu": 0.25, "cuda": 0.5}
"""The median of the turns; on a CPU, whose cores are never ours alone, of the quicker half."""
_MORE_TURNS: Final = {"cpu": 3, "cuda": 1}
"""A CPU's turns are short, to slip between its other users' time slices, and therefore more."""
_PROBES: Final = {"cpu": 3, "cuda": 2}
_CLAIMED_ALONE_MS: Final = {"cpu": 0.02, "cuda": 0.04}
"""What a first launch, or cold code, may cost a lone call that a batch hides."""
_QUEUED_ALONE_MS: Final = 0.006
"""The same where launches are over before: code is fetched anew, and nothing runs beside its end."""
_SEEN_ALONE_MS: Final = 0.1
_QUEUED_SEEN_ALONE_MS: Final = 0.2
"""The same where a queue is released before its process wakes: long calls hide what that takes."""
_ALONE_SHARE: Final = 0.25

Clocked = Callable[[CallBuffers], list[float]]
"""Milliseconds of each turn of a side, by one of the clocks."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how often to measure."""

    count: int
    """Calls per batch that are scored."""
    target_ms: float
    max_turns: int
    call_timeout_s: float
    queued: bool = False
    """Whether calls wait in the device's queue for their inputs: what the host takes to launch is no part."""
    singles: bool = True
    """Whether calls are timed one by one too, for work that was merged; of trusted sides none is."""
    lead: int = 0
    """Calls before them, verified like all others: on a GPU they hide how long the host takes to begin."""

    @property
    def calls(self) -> int:
        """All calls of a full batch."""
        return self.lead + self.count


class InterleavedTimer:
    """Measures one candidate against one baseline."""

    def __init__(self, device: Device, ring: TimedInputs, schedule: Schedule, secret: random.Random) -> None:
        self._device = device
        self.kind = device.torch_device.type
        """Of device: `cpu` or `cuda`."""
        self.lead = schedule.lead
        """Calls of a batch that are not scored."""
        self.queued = schedule.queued
        """Whether calls wait in the device's queue for their inputs."""
        self._quantile = _QUANTILE[self.kind]
        self._ring = ring
        self._schedule = schedule
        self._secret = secret
        self._visitor = TurnRunner(
            device, ring, secret, queued=schedule.queued, call_timeout_s=schedule.call_timeout_s
        )
        self._flipped: dict[int, FlippedElements] = {}
        self._started = time.monotonic()
        self._look = _FEWEST_TURNS * _MORE_TURNS[self.kind]

    def duel(self, candidate: CallBuffers, baseline: CallBuffers) -> None:
        """Take turns until the interval is tight, the candidate hopeless, or turns or time used up.

        Raises:
            Verdict: a timed output is wrong, or the candidate failed or hung.
        """
        self._started = time.monotonic()
        while not self._enough(candidate, baseline):
            self._turn(candidate, baseline, self._schedule.calls)
            while self._schedule.singles and self._schedule.count > 1 and self._wants_single(candidate):
                self._turn(candidate, baseline, 1)

    def solo(self, baseline: CallBuffers, turns: int) -> None:
        """Time one side by itself."""
        for _ in range(turns):
            baseline.turns.append(self._visit(baseline, self._ring.recipe(self._schedule.calls))[0])

    def probe(self, lane: CallBuffers) -> tuple[float, bool]:
        """Milliseconds a call takes at best in a few turns, of a slow one in the first; if any was queued."""
        taken: list[RunResult] = []
        while (
            len(taken) < _PROBES[self.kind] and max((ran.inner_ms for ran in taken), default=0.0) < _SLOW_MS
        ):
            taken.append(self._visit(lane, self._ring.recipe(self._schedule.calls))[0])
        queued = any(ran.launch_ms is not None for ran in taken)
        return min(ran.inner_ms for ran in taken) / self._schedule.count, queued

    def alone(self, lane: CallBuffers) -> Timing:
        """What a trusted side took by itself."""
        return self._summary(lane, [ran.inner_ms for ran in lane.turns], "inner")

    def outer_ms(self, lane: CallBuffers) -> float:
        """What a call of any side takes at most, by our clock."""
        return self._typical([ran.outer_ms for ran in lane.turns]) / self._schedule.calls

    def ratio(self, numerator: Sequence[float], denominator: Sequence[float]) -> tuple[float, Interval]:
        """The ratio of what two sides' turns stand for, with its interval."""
        middle = self._typical(numerator) / max(self._typical(denominator), 1e-9)
        return middle, ratio_interval(numerator, denominator, share=self._quantile)

    def _wants_single(self, candidate: CallBuffers) -> bool:
        """Never announced: about every other turn, surely twice by the end; of short calls, more."""
        done, turns = len(candidate.singles), len(candidate.turns)
        if self.outer_ms(candidate) < _SHORT_MS:
            most = _MOST_QUEUED_SINGLES if self._schedule.queued else _MOST_SHORT_SINGLES
            return done < most * min(1.0, turns / (_FEWEST_TURNS * _MORE_TURNS[self.kind]))
        return done < _MOST_SINGLES and (done < turns // 3 or self._secret.random() < 0.3)

    def _turn(self, candidate: CallBuffers, baseline: CallBuffers, count: int) -> None:
        """Both sides once, in random order, on the same inputs."""
        recipe = self._ring.recipe(count)
        lanes = [candidate, baseline]
        self._secret.shuffle(lanes)
        outputs: dict[int, list[torch.Tensor]] = {}
        for lane in lanes:
            ran, outputs[id(lane)] = self._visit(lane, recipe)
            (lane.turns if count == self._schedule.calls else lane.singles).append(ran)
        ours, theirs = outputs[id(candidate)], outputs[id(baseline)]
        compared = self._ring.compare(ours, theirs, recipe, self._flipped)
        self._flipped = compared.flipped
        if compared.mismatch:
            raise CandidateFailed(
                Status.WRONG_VALUES, f"right when verified, wrong when timed: {compared.mismatch}"
            )

    def _visit(self, lane: CallBuffers, recipe: InputRecipe) -> tuple[RunResult, list[torch.Tensor]]:
        full = recipe.count == self._schedule.calls
        return self._visitor.visit(lane, recipe, lead=self.lead if full else 0, full=full)

    def _enough(self, candidate: CallBuffers, baseline: CallBuffers) -> bool:
        turns, more = len(candidate.turns), _MORE_TURNS[self.kind]
        if turns >= self._schedule.max_turns * more:
            return True
        theirs = [ran.inner_ms for ran in baseline.turns]
        ours = [ran.inner_ms for ran in candidate.turns]
        if turns >= _HOPELESS_TURNS * more and self._typical(theirs) < _HOPELESS * self._typical(ours):
            return True
        if turns < _FEWEST_TURNS * more:
            return False
        if time.monotonic() - self._started > _WALL_S[self.kind]:
            return True
        taken_ms = max(sum(ran.outer_ms for ran in lane.turns) for lane in (candidate, baseline))
        if turns < self._look or taken_ms < self._schedule.target_ms:
            return False
        self._look = math.ceil(turns * _LOOKS)
        interval = ratio_interval(theirs, self._scored(candidate, baseline)[0], share=self._quantile)
        return interval.high - interval.low <= 2 * _TIGHT[self.kind] * interval.low

    def _typical(self, values: Sequence[float]) -> float:
        return quantile(values, self._quantile)

    def _scored(
        self, candidate: CallBuffers, baseline: CallBuffers
    ) -> tuple[list[float], str, dict[str, float]]:
        """The candidate's time of each turn, the clock it is from, and what was charged for a call."""
        missing = self._excess_ms(candidate, baseline)
        claimed = [ran.inner_ms for ran in candidate.turns]
        seen, noise = self._seen_ms(candidate, baseline), self._noise_ms(baseline)
        if noise > _TOLD_SHARE * seen:
            missing = {where: max(0.0, value) for where, value in missing.items()} | {"wandering": noise}
        excused = min(noise, _DOUBT_SHARE * seen) + min(_AGREE_MS[self.kind], _DOUBT_SHARE * seen)
        if sum(missing.values()) <= _AGREE_SHARE * self._typical(claimed) + excused:
            return claimed, "inner", {}
        charges = {where: value / self._schedule.calls for where, value in missing.items()}
        charged = sum(charges.values()) * self._schedule.count
        return [value + charged for value in claimed], "outer", charges

    def _seen_ms(self, candidate: CallBuffers, baseline: CallBuffers) -> float:
        """What our clock saw of a batch beyond what the protocol costs the trusted side."""
        outer = self._typical([ran.outer_ms for ran in candidate.turns])
        return max(0.0, outer - self._remainder_ms(baseline, _outer))

    def _excess_ms(self, candidate: CallBuffers, baseline: CallBuffers) -> dict[str, float]:
        """What the candidate's claims leave of our clock, and collecting, beyond the trusted side's.

        Clocks are added up turn by turn: what is done here in some turns and there in others is typical of
        no place.
        """
        answering = self._beyond(candidate, baseline, _outer)
        collecting = max(0.0, self._beyond(candidate, baseline, _seen) - answering)
        writing = self._hidden_ms(candidate, baseline, told=answering + collecting)
        return {"answering": answering, "collecting": collecting, "writing": writing}

    def _beyond(self, candidate: CallBuffers, baseline: CallBuffers, clock: Clocked) -> float:
        """What the claims leave of one of our clocks, beyond what the trusted side's do."""
        return self._remainder_ms(candidate, clock) - self._remainder_ms(baseline, clock)

    def _remainder_ms(self, lane: CallBuffers, clock: Clocked) -> float:
        """What the claims of a side, as they would score, leave of one of our clocks.

        Not a typical turn's: whoever lies in some turns would be cleared by the others.
        """
        seen, claimed = clock(lane), _inner(lane)
        return self._typical(seen) - self._typical(claimed) * self._schedule.calls / self._schedule.count

    def _hidden_ms(self, candidate: CallBuffers, baseline: CallBuffers, *, told: float) -> float:
        """What a GPU took longer to write for the candidate than for the baseline, while both were stopped.

        Work that was queued before runs then, before the clock starts or after the answer. `told` is what
        other clocks told of: where that is hidden in some turns only, the sum of all of them tells the rest.
        """
        ours, theirs = candidate.written_ms, baseline.written_ms
        if self.kind != "cuda" or not (ours and theirs):
            return 0.0
        floor = _AGREE_SHARE * self._typical(theirs) + _AGREE_MS[self.kind]
        written = longer(ours, theirs, share=self._quantile)
        found = written.beyond(floor)
        if len(ours) == len(candidate.turns) and len(theirs) == len(baseline.turns):
            rest = TimeExcess(self._beyond(candidate, baseline, _everything) - told, written.noise)
            found = max(found, rest.beyond(floor))
        return found

    def _noise_ms(self, baseline: CallBuffers) -> float:
        """How far the trusted side's own remainder wanders, as an error of its median."""
        return error(self._left(baseline.turns))

    def timing(self, candidate: CallBuffers, baseline: CallBuffers) -> tuple[Timing, Timing]:
        """Sum both sides' turns up, per call."""
        scored, clock, charges = self._scored(candidate, baseline)
        deferred = self.deferred_ms(candidate, baseline)
        if deferred:
            scored, clock = [value + deferred * self._schedule.count for value in scored], "single"
            charges["alone"] = deferred
        trusted = [ran.inner_ms for ran in baseline.turns]
        ours = self._summary(candidate, scored, clock).model_copy(update={"charges": charges})
        return ours, self._summary(baseline, trusted, "inner")

    def _summary(self, lane: CallBuffers, scored: list[float], clock: str) -> Timing:
        count = self._schedule.count
        singles = [ran.outer_ms for ran in lane.singles]
        launches = [ran.launch_ms for ran in lane.turns if ran.launch_ms is not None]
        return Timing(
            median_ms=self._typical(scored) / count,
            spread_ms=spread(scored) / count,
            turns=len(scored),
            calls=len(scored) * count,
            inner_ms=self._typical([ran.inner_ms for ran in lane.turns]) / count,
            outer_ms=self._typical([ran.outer_ms for ran in lane.turns]) / self._schedule.calls,
            single_ms=self._typical(singles) if singles else None,
            launch_ms=self._typical(launches) / self._schedule.calls if launches else None,
            clock=clock,
            turn_ms=tuple(value / count for value in scored),
        )

    def check_claims(self, candidate: CallBuffers, baseline: CallBuffers) -> None:
        """Claims far below our clock, turn after turn, are a forged clock; a stopped process does not work.

        Raises:
            Doubt: `TAMPERED`.
        """
        if self.kind == "cuda" and (why := busy(candidate.published_ms, baseline.published_ms)):
            raise MeasurementDoubt(Status.TAMPERED, why)
        usual = max(self._left(baseline.turns))
        gross = [
            left > _GROSS_SHARE * max(ran.inner_ms, 0.0) + 2 * usual + _GROSS_MS
            for ran, left in zip(candidate.turns, self._left(candidate.turns), strict=True)
        ]
        if len(gross) >= _GROSS_TURNS and all(gross):
            claimed = median(ran.inner_ms for ran in candidate.turns)
            seen = median(ran.outer_ms for ran in candidate.turns)
            raise MeasurementDoubt(
                Status.TAMPERED,
                f"the process claims {claimed:.3f} ms where our clock saw {seen:.3f} ms, "
                f"in each of {len(gross)} turns",
            )

    def deferred_ms(self, candidate: CallBuffers, baseline: CallBuffers) -> float:
        """How much more a lone call costs than a batched one, beyond the baseline's: merged work.

        By the contestant's claims, which hardly wander, and by our clock, which cannot be forged, and which
        runs until outputs are collected: there a lone call could be paid for.
        """
        if min(len(candidate.singles), len(baseline.singles)) < _FEWEST_SINGLES:
            return 0.0

        def alone(clock: Callable[[RunResult], float], count: int) -> TimeExcess:
            ours, theirs = (
                CallTimes([clock(ran) / count for ran in lane.turns], [clock(ran) for ran in lane.singles])
                for lane in (candidate, baseline)
            )
            return merged(ours, theirs, share=self._quantile)

        slack = _ALONE_SHARE * self.outer_ms(candidate)
        floor = _QUEUED_ALONE_MS if self.queued else _CLAIMED_ALONE_MS[self.kind]
        seen_floor = _QUEUED_SEEN_ALONE_MS if self.queued else _SEEN_ALONE_MS
        return max(
            alone(lambda ran: ran.inner_ms, self._schedule.count).beyond(floor + slack),
            alone(lambda ran: ran.seen_ms, self._schedule.calls).beyond(seen_floor + slack),
        )

    def _left(self, turns: list[RunResult]) -> list[float]:
        """What claims leave of the referee's clock, if a call of the lead takes what a scored one does."""
        all_of_scored = self._schedule.calls / self._schedule.count
        return [ran.outer_ms - ran.inner_ms * all_of_scored for ran in turns]


def _inner(lane: CallBuffers) -> list[float]:
    return [ran.inner_ms for ran in lane.turns]


def _outer(lane: CallBuffers) -> list[float]:
    return [ran.outer_ms for ran in lane.turns]


def _seen(lane: CallBuffers) -> list[float]:
    return [ran.seen_ms for ran in lane.turns]


def _everything(lane: CallBuffers) -> list[float]:
    return [ran.seen_ms + written for ran, written in zip(lane.turns, lane.written_ms, strict=True)]
