"""Turns into times: a worker's claimed time where the measured time is consistent with it, else the measured.

A worker times its own calls, and may lie; the referee's clock encloses every batch. What the trusted
baseline's claims leave of the measured time is the honest cost of the protocol (messages, loop, collection of
the same bytes). A candidate's claim scores only where it leaves no more than that, within a tolerance that is
a share of the measured time; a time excess is added to it, and so is the noise where batches are too short
for the referee's clock. Pure functions of turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import median
from typing import Final

from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.statistics import (
    mean_excess,
    median_absolute_deviation,
    noise,
    quantile,
    ratio_interval,
)
from kernelwright.evaluator.schema.evaluation import Timing


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls that are timed together."""

    kind: str
    """Of device: `cpu` or `cuda`."""
    count: int
    """Scored calls."""
    queued: bool = False
    """True if calls wait in the device's queue for their inputs: launching them is not in their time."""
    lead: int = 0
    """Unscored calls before them, verified like all others: they hide how slowly a GPU's host begins."""

    @property
    def calls(self) -> int:
        return self.lead + self.count

    def typical(self, values: Sequence[float]) -> float:
        """The value that turns score as."""
        return quantile(values, policy.TYPICAL_QUANTILE[self.kind])


@dataclass(frozen=True, slots=True)
class Turn:
    """Milliseconds of one turn of one worker."""

    claimed_ms: float
    """By the worker's clock, for the scored calls."""
    answered_ms: float
    """By the referee's clock, until the worker answered."""
    collected_ms: float
    """By the referee's clock, until its outputs were collected."""
    owning_ms: float = 0.0
    """By the referee's clock, finding and copying outputs that do not own their memory, without the claimed
    time of those copies."""
    freezing_ms: float = 0.0
    """By the referee's clock, on a CPU, until the worker stood still whenever it was frozen: a system call
    that it had begun goes on until then."""
    launch_ms: float | None = None
    """Until all calls were queued, before the clocks started; None where they were not."""
    setup_ms: float = 0.0
    """By the referee's clock, getting ready before the calls and restoring state after them."""
    returned_ms: float = 0.0
    """Likewise, overwriting and dropping its outputs, above what collecting them costs."""
    foreign_device_ms: float = 0.0
    """Time other processes used the device while the worker was idle."""
    competing: int = 0
    """Threads of other programs that wanted a core just before, on a CPU."""

    @property
    def referee_ms(self) -> float:
        return self.collected_ms + self.setup_ms + self.returned_ms

    @property
    def referee_and_foreign_ms(self) -> float:
        return self.referee_ms + self.foreign_device_ms

    @property
    def whole_ms(self) -> float:
        return self.referee_ms + self.owning_ms + self.freezing_ms


Clock = Callable[[Turn], float]
"""One of the clocks of a turn."""
_claimed: Final[Clock] = attrgetter("claimed_ms")
_answered: Final[Clock] = attrgetter("answered_ms")
_collected: Final[Clock] = attrgetter("collected_ms")
_owning: Final[Clock] = attrgetter("owning_ms")
_freezing: Final[Clock] = attrgetter("freezing_ms")
_referee: Final[Clock] = attrgetter("referee_ms")
_whole: Final[Clock] = attrgetter("whole_ms")
_referee_and_foreign: Final[Clock] = attrgetter("referee_and_foreign_ms")


@dataclass(frozen=True, slots=True)
class TurnLog:
    """Turns of one worker, in order."""

    batches: list[Turn] = field(default_factory=list)
    single_calls: list[Turn] = field(default_factory=list)

    def of(self, clock: Clock) -> list[float]:
        """Time of each batch by one clock."""
        return [clock(turn) for turn in self.batches]


@dataclass(frozen=True, slots=True)
class PairedTurns:
    """Turns of a candidate and its baseline, which alternated on the same inputs."""

    batch: Batch
    candidate: TurnLog = field(default_factory=TurnLog)
    baseline: TurnLog = field(default_factory=TurnLog)
    spiked: list[bool] = field(default_factory=list)
    """Of each batch, if elements of its inputs stood out."""

    def add_batch(self, candidate: Turn, baseline: Turn, *, spiked: bool = False) -> None:
        """Add a turn of both in full batches."""
        self.candidate.batches.append(candidate)
        self.baseline.batches.append(baseline)
        self.spiked.append(spiked)

    def add_single_call(self, candidate: Turn, baseline: Turn) -> None:
        """Add a turn of both in unannounced batches of one call."""
        self.candidate.single_calls.append(candidate)
        self.baseline.single_calls.append(baseline)

    def of_kind(self, spiked: bool) -> PairedTurns:
        """Only the batches whose inputs had elements that stood out, or only the others."""
        candidate, baseline = (
            TurnLog(
                [turn for turn, kind in zip(log.batches, self.spiked, strict=True) if kind is spiked],
                log.single_calls,
            )
            for log in (self.candidate, self.baseline)
        )
        return PairedTurns(self.batch, candidate, baseline, [kind for kind in self.spiked if kind is spiked])

    @property
    def is_lost(self) -> bool:
        """True where the candidate's claims alone are far above the baseline's."""
        own, other = (self.batch.typical(log.of(_claimed)) for log in (self.candidate, self.baseline))
        return own > policy.LOST_SHARE * other

    @property
    def candidate_call_ms(self) -> float:
        """Measured time of a candidate's call, an upper bound."""
        return self.batch.typical(self.candidate.of(_answered)) / self.batch.calls


@dataclass(frozen=True, slots=True)
class TimeExcess:
    """A candidate's time beyond the baseline's, and its noise, in milliseconds."""

    value: float
    noise: float

    def beyond(self, floor: float) -> float:
        """All of it where it exceeds floor and noise, else nothing."""
        return self.value if self.value > floor + self.noise else 0.0


@dataclass(frozen=True, slots=True)
class ScoredTurns:
    """A candidate's batches as they score."""

    batch_ms: list[float]
    clock: str
    """`inner` where the claims are consistent with the measured time, else `outer`, or `single`."""
    charges: dict[str, float]
    """Time excess that was added to a call, by where it was found."""


def scored_turns(turns: PairedTurns) -> ScoredTurns:
    """Score the claims where they are consistent; else add the time excess to them."""
    batch, claimed = turns.batch, turns.candidate.of(_claimed)
    excess = _time_excess(turns)
    answered = batch.typical(turns.candidate.of(_answered))
    measured = max(0.0, answered - _unclaimed_ms(turns.baseline, batch, _answered))
    variation = noise(_unclaimed_turns(turns.baseline, batch))
    if variation > policy.NOISY_SHARE * measured:
        excess = {where: max(0.0, value) for where, value in excess.items()} | {"wandering": variation}
    share = policy.MEASURED_TOLERANCE * measured
    allowed = min(variation, share) + min(policy.ANSWER_TOLERANCE_MS[batch.kind], share)
    if sum(excess.values()) <= policy.CLAIM_TOLERANCE * batch.typical(claimed) + allowed:
        return ScoredTurns(claimed, "inner", {})
    charges = {where: value / batch.calls for where, value in excess.items()}
    charged = sum(charges.values()) * batch.count
    return ScoredTurns([value + charged for value in claimed], "outer", charges)


def slower_kind(turns: PairedTurns) -> PairedTurns:
    """All turns; only those of the slower kind where a candidate is surely slower on one kind of inputs.

    Elements that stand out prove work unnecessary. Looks at other clocks, too: claims could be alike.
    """
    kinds = [turns.of_kind(spiked) for spiked in (True, False)]
    if min(len(kind.spiked) for kind in kinds) < policy.FEWEST_OF_A_KIND:
        return turns
    share = policy.TYPICAL_QUANTILE[turns.batch.kind]
    for clock in (*((_whole,) if turns.batch.kind == "cpu" else ()), _answered, _claimed):
        one, other = (
            ratio_interval(kind.baseline.of(clock), kind.candidate.of(clock), share=share) for kind in kinds
        )
        if one.high < other.low:
            return kinds[0]
        if other.high < one.low:
            return kinds[1]
    return turns


def candidate_timing(turns: PairedTurns) -> Timing:
    """Time of a candidate's call, merged work included."""
    batch, scored = turns.batch, scored_turns(turns)
    batch_ms, clock, charges = scored.batch_ms, scored.clock, scored.charges
    merged_ms = merged_work_ms(turns)
    if merged_ms:
        batch_ms, clock = [value + merged_ms * batch.count for value in batch_ms], "single"
        charges = charges | {"alone": merged_ms}
    if uneven_ms := _uneven_ms(turns, batch_ms):
        batch_ms, clock = [value + uneven_ms for value in batch_ms], clock.replace("inner", "outer")
        charges = charges | {"uneven": uneven_ms / batch.count}
    return _timing(turns.candidate, batch, batch_ms, clock).model_copy(update={"charges": charges})


def _uneven_ms(turns: PairedTurns, batch_ms: list[float]) -> float:
    """Time of the mean turn beyond the typical one, and beyond the baseline's: some turns work for others."""
    typical, series = turns.batch.typical, [(batch_ms, turns.baseline.of(_claimed))]
    if turns.batch.kind == "cpu":  # such work may hide outside the claims
        series.append((turns.candidate.of(_whole), turns.baseline.of(_whole)))
    found = ((typical(own), *mean_excess(own, other, typical)) for own, other in series)
    return max(
        TimeExcess(share, policy.UNEVEN_ERRORS * error).beyond(policy.UNEVEN_SHARE) * usual
        for usual, share, error in found
    )


def trusted_timing(log: TurnLog, batch: Batch) -> Timing:
    """Time of a trusted worker's call, as it claims."""
    return _timing(log, batch, log.of(_claimed), "inner")


def forged_clock(turns: PairedTurns) -> str:
    """Describe claims that are far below the measured time in every turn; empty where they are not."""
    batch, batches = turns.batch, turns.candidate.batches
    usual = max(_unclaimed_turns(turns.baseline, batch))
    forged = [
        unclaimed > policy.FORGED_SHARE * max(turn.claimed_ms, 0.0) + 2 * usual + policy.FORGED_MS
        for turn, unclaimed in zip(batches, _unclaimed_turns(turns.candidate, batch), strict=True)
    ]
    if len(forged) < policy.FORGED_TURNS or not all(forged):
        return ""
    claimed, measured = median(turns.candidate.of(_claimed)), median(turns.candidate.of(_answered))
    return (
        f"the process claims {claimed:.3f} ms where our clock saw {measured:.3f} ms, "
        f"in each of {len(forged)} turns"
    )


def merged_work_ms(turns: PairedTurns, *, tolerance: float = 1.0) -> float:
    """Time that a single call costs beyond a batched one, and beyond the baseline's: work done once a batch.

    Measured by the claims, which hardly vary, and by the referee's clock with foreign work, which cannot be
    forged: a single call could be paid for while it is collected or queued. `tolerance` multiplies what a
    single call may cost more at no charge; below 1, few calls are judged as many are.
    """
    candidate, baseline, batch = turns.candidate, turns.baseline, turns.batch
    if min(len(candidate.single_calls), len(baseline.single_calls)) < policy.FEWEST_SINGLE_CALLS:
        return 0.0
    slack = policy.SINGLE_CALL_SHARE[batch.kind] * turns.candidate_call_ms
    floor = policy.QUEUED_SINGLE_MS if batch.queued else policy.CLAIMED_SINGLE_MS[batch.kind]
    measured_floor = policy.QUEUED_MEASURED_SINGLE_MS if batch.queued else policy.MEASURED_SINGLE_MS
    found = (
        (floor, _single_call_excess(turns, _claimed, batch.count, tolerance < 1)),
        (measured_floor, _single_call_excess(turns, _referee_and_foreign, batch.calls, tolerance < 1)),
        (policy.HIDDEN_SINGLE_MS[batch.kind], _hidden_in_single_calls(turns)),
    )
    return max(excess.beyond(tolerance * (least + slack)) for least, excess in found)


def _single_call_excess(turns: PairedTurns, clock: Clock, calls: int, strict: bool) -> TimeExcess:
    """Compare what a single call costs beyond one of a batch of `calls`: merged work costs each in full.

    On a GPU a batch may be a few calls, and what it costs besides wavers by a time slice of the device, so a
    batched call is what scores.
    """
    logs = (turns.candidate, turns.baseline)
    single = [[clock(turn) for turn in log.single_calls] for log in logs]
    batched = [[value / calls for value in log.of(clock)] for log in logs]
    if turns.batch.kind == "cuda" and clock is not _claimed:
        scored = (scored_turns(turns).batch_ms, turns.baseline.of(_claimed))
        batched = [[value / turns.batch.count for value in log] for log in scored]
    usual = policy.TYPICAL_QUANTILE[turns.batch.kind]

    def cost(worker: int, share: float) -> float:
        return quantile(single[worker], share) - quantile(batched[worker], usual)

    if len(single[0]) < policy.STEADY_VALUES and not strict:
        return TimeExcess(cost(0, 0.0) - max(cost(1, 1.0), 0.0), 0.0)
    if turns.batch.kind == "cuda" or clock is _claimed:
        # Others make most lone calls longer on a CPU, and nobody can make one shorter than its work.
        least = policy.LEAST_SINGLE_QUANTILE
        return TimeExcess(cost(0, least) - max(cost(1, least), 0.0), 0.0)
    pairs = (zip(*single, strict=True), zip(*batched, strict=True))
    return TimeExcess(
        cost(0, usual) - max(cost(1, usual), 0.0), sum(noise([a - b for a, b in pair]) for pair in pairs)
    )


def _hidden_in_single_calls(turns: PairedTurns) -> TimeExcess:
    """Compare what the least single calls leave unclaimed: the same messages for both workers."""
    candidate, baseline = (
        [turn.answered_ms + turn.foreign_device_ms - turn.claimed_ms for turn in log.single_calls]
        for log in (turns.candidate, turns.baseline)
    )
    least = policy.LEAST_SINGLE_QUANTILE
    return TimeExcess(quantile(candidate, least) - quantile(baseline, least), 0.0)


def _time_excess(turns: PairedTurns) -> dict[str, float]:
    """Time that the candidate's claims leave beyond what the baseline's leave, by where it was found.

    Sum clocks per turn: work that moves between clocks would vanish from each median.
    """
    answering = _excess_ms(turns, _answered)
    collecting = max(0.0, _excess_ms(turns, _collected) - answering)
    # Foreign work in the baseline's turns is the candidate's: the device should have been idle there, too.
    both = zip(turns.candidate.batches, turns.baseline.batches, strict=True)
    seen = [mine.referee_and_foreign_ms + other.foreign_device_ms for mine, other in both]
    total = _beyond_claims(seen, turns.candidate, turns.batch) - _unclaimed_ms(
        turns.baseline, turns.batch, _referee
    )
    return {
        "answering": answering,
        "collecting": collecting,
        "owning": _beyond_baseline_ms(turns, _owning),
        "freezing": _beyond_baseline_ms(turns, _freezing),
        "aside": max(0.0, total - answering - collecting),
    }


def _beyond_baseline_ms(turns: PairedTurns, clock: Clock) -> float:
    """Time beyond a multiple of the baseline's, of steps after the answer that differ between processes.

    Outputs were seen before these began: there is little to gain in what is allowed.
    """
    batch = turns.batch
    allowed = policy.OWNING_FACTOR * batch.typical(turns.baseline.of(clock))
    return max(
        0.0, batch.typical(turns.candidate.of(clock)) - allowed - policy.ANSWER_TOLERANCE_MS[batch.kind]
    )


def _excess_ms(turns: PairedTurns, clock: Clock) -> float:
    batch = turns.batch
    return _unclaimed_ms(turns.candidate, batch, clock) - _unclaimed_ms(turns.baseline, batch, clock)


def _unclaimed_ms(log: TurnLog, batch: Batch, clock: Clock) -> float:
    """Time of a batch by one clock that the claims, as they would score, do not explain.

    Of typical times and not the typical difference: lies in some turns would hide behind the others.
    """
    return _beyond_claims(log.of(clock), log, batch)


def _beyond_claims(seen: list[float], log: TurnLog, batch: Batch) -> float:
    return batch.typical(seen) - batch.typical(log.of(_claimed)) * batch.calls / batch.count


def _unclaimed_turns(log: TurnLog, batch: Batch) -> list[float]:
    """Time of each turn that its claim does not explain, if calls of the lead cost what scored ones do."""
    return [turn.answered_ms - turn.claimed_ms * batch.calls / batch.count for turn in log.batches]


def _timing(log: TurnLog, batch: Batch, batch_ms: list[float], clock: str) -> Timing:
    singles = [turn.answered_ms for turn in log.single_calls]
    launches = [turn.launch_ms for turn in log.batches if turn.launch_ms is not None]
    return Timing(
        median_ms=batch.typical(batch_ms) / batch.count,
        spread_ms=median_absolute_deviation(batch_ms) / batch.count,
        turns=len(batch_ms),
        calls=len(batch_ms) * batch.count,
        inner_ms=batch.typical(log.of(_claimed)) / batch.count,
        outer_ms=batch.typical(log.of(_answered)) / batch.calls,
        single_ms=batch.typical(singles) if singles else None,
        launch_ms=batch.typical(launches) / batch.calls if launches else None,
        clock=clock,
        turn_ms=tuple(value / batch.count for value in batch_ms),
        taken_ms=batch.typical([turn.foreign_device_ms for turn in log.batches]),
        competing=sum(turn.competing for turn in log.batches) / len(log.batches),
    )
