"""The speedup of timed turns: against which baseline, and with which interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.claimed_time import Batch
from kernelwright.evaluator.referee.timing.statistics import ratio, ratio_interval, widened
from kernelwright.evaluator.schema.evaluation import Interval, Measurement, Timing


@dataclass(frozen=True, slots=True)
class BaselineFacts:
    """Facts about a baseline beside its turns."""

    solo_ms: float
    """Time alone, with no contestant around."""
    solo_spread_ms: float
    """Median absolute deviation of its turns alone."""
    compile_ratio: float | None
    """Compiled time over eager time; None when not wanted or when it cannot be compiled."""
    process_spread: float | None
    """Relative standard deviation between processes of the reference; None where it is not measured."""
    impossible: Mapping[str, str] = field(default_factory=dict)
    """Baselines that the problem cannot have, with the reason."""
    disturbed: bool = False
    """True where other programs wanted the cores while these facts were measured."""
    max_ms: float | None = None
    """Upper bound on its time beside a candidate."""
    just_measured: bool = False
    """True where its time alone was measured just after its turns beside the candidate, which has ended."""


def is_contended(baseline: Timing) -> bool:
    """Return whether other programs wanted the cores, or used the device, in a trusted process's turns."""
    is_shared = baseline.taken_ms > policy.ANSWER_TOLERANCE_MS["cuda"]
    return is_shared or baseline.competing > policy.QUIET_THREADS


def slowed(eager: Timing, facts: BaselineFacts, kind: str) -> bool:
    """Return whether the baseline ran slower beside a contestant than alone, beyond its own variation.

    What a contestant has queued on a GPU goes on while its threads are stopped, as do timers and sockets of a
    CPU's, and now and then is enough: the spread of turns beside it excuses nothing.
    """
    allowed = policy.CONTENDED_FACTOR[kind] * facts.solo_ms + policy.CONTENDED_SPREADS * facts.solo_spread_ms
    return eager.median_ms > allowed


def needs_spread(found: Measurement, *, queued: bool) -> bool:
    """Return whether a GPU's processes are to be compared: calls are short or not queued, or it is close."""
    is_short = found.baselines["eager"].median_ms < policy.ASSUMED_FROM_MS
    is_close = abs(math.log(max(found.speedup, policy.SMALLEST_TIME))) < policy.CLOSE_CALL
    return is_short or is_close or not queued


def measurement(candidate: Timing, eager: Timing, batch: Batch, facts: BaselineFacts) -> Measurement:
    """Compare a candidate with its baselines; the headline is against the fastest."""
    # A CPU's cores are never ours alone: there, later on, its other users would be taken for the contestant.
    may_compare = batch.kind == "cuda" or facts.just_measured
    is_slowed = may_compare and facts.max_ms is None and slowed(eager, facts, batch.kind)
    eager_ms = facts.solo_ms if is_slowed else eager.median_ms
    if facts.max_ms is not None:
        eager_ms = min(eager_ms, facts.max_ms)
    eager = eager.model_copy(update={"solo_ms": facts.solo_ms, "median_ms": eager_ms})
    baselines = {"eager": eager}
    if facts.compile_ratio is not None:
        baselines["compile"] = _scaled(eager, facts.compile_ratio)
    against = min(baselines, key=lambda name: baselines[name].median_ms)
    speedups = {
        name: timing.median_ms / max(candidate.median_ms, policy.SMALLEST_TIME)
        for name, timing in baselines.items()
    }
    share = policy.TYPICAL_QUANTILE[batch.kind]
    raw = ratio_interval(eager.turn_ms, candidate.turn_ms, share=share)
    middle = ratio(eager.turn_ms, candidate.turn_ms, share=share)
    shift = speedups[against] / max(middle, policy.SMALLEST_TIME)
    interval = Interval(low=raw.low * shift, high=raw.high * shift)
    if facts.process_spread is not None:
        process_spread, spreads = facts.process_spread, policy.STUDENT_T[batch.kind]
    else:
        process_spread, spreads = policy.ASSUMED_SPREAD, policy.NORMAL_QUANTILE
    # A scaled baseline stands on two more processes: the compiled one, and eager beside it.
    timed = 2 if baselines[against] is eager else 4
    interval = widened(interval, speedups[against], spread=spreads * process_spread, processes=timed)
    return Measurement(
        candidate=candidate,
        baselines=baselines,
        speedups=speedups,
        against=against,
        speedup=speedups[against],
        interval=interval,
        process_spread=process_spread,
        spread_assumed=facts.process_spread is None,
        noise_floor=_noise_floor(eager.turn_ms, share),
        calls_per_batch=batch.count,
        ring_slots=batch.calls,
        contended=is_slowed or facts.disturbed or is_contended(eager),
        impossible=dict(facts.impossible),
    )


def _scaled(eager: Timing, factor: float) -> Timing:
    return Timing(
        median_ms=eager.median_ms * factor,
        spread_ms=eager.spread_ms * factor,
        turns=eager.turns,
        calls=eager.calls,
        outer_ms=eager.outer_ms * factor,
        clock="scaled",
    )


def _noise_floor(turns: tuple[float, ...], share: float) -> float | None:
    """Half-width of the interval of the baseline's odd turns against its even ones."""
    odd, even = turns[::2], turns[1::2]
    if len(even) < 2:
        return None
    interval = ratio_interval(odd[: len(even)], even, share=share)
    return (interval.high - interval.low) / 2
