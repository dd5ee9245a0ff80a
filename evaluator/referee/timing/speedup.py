"""From what both sides' turns say to the record of a duel: against which baseline, and how sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kernelwright.evaluator.referee.timing.interleaved_timer import InterleavedTimer
from kernelwright.evaluator.referee.timing.statistics import widened
from kernelwright.evaluator.schema.evaluation import Interval, Measurement, Timing

_CONTENDED: Final = 1.05


@dataclass(frozen=True, slots=True)
class BaselineFacts:
    """What is known of a baseline beside its turns."""

    solo_ms: float
    """Alone, with no contestant around."""
    solo_spread_ms: float
    """Median absolute deviation of its turns alone."""
    compile_ratio: float | None
    """Compiled time over eager time; None when not wanted or when it cannot be compiled."""
    process_spread: float | None
    """Relative standard deviation between processes of the reference; None where it was not measured."""
    most_ms: float | None = None
    """No more than this counts of its time beside a candidate."""


def contended(eager: Timing, known: BaselineFacts) -> bool:
    """Whether the baseline ran slower beside a contestant than alone, beyond what it wanders alone.

    What a contestant has queued on a GPU goes on while its threads are stopped, and now and then is enough:
    how far turns beside it lie apart excuses nothing.
    """
    return eager.median_ms > _CONTENDED * known.solo_ms + 3 * known.solo_spread_ms


def measurement(
    clock: InterleavedTimer, ours: Timing, eager: Timing, count: int, known: BaselineFacts
) -> Measurement:
    """The record of a duel; the headline is against the fastest baseline."""
    # A CPU's cores are never ours alone: there its other users would be taken for the contestant.
    beside = clock.kind == "cuda" and known.most_ms is None and contended(eager, known)
    eager = eager.model_copy(update={"solo_ms": known.solo_ms})
    if beside:
        eager = eager.model_copy(update={"median_ms": known.solo_ms})
    if known.most_ms is not None and eager.median_ms > known.most_ms:
        eager = eager.model_copy(update={"median_ms": known.most_ms})
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
        ring_slots=count + clock.lead,
        contended=beside,
    )


def _noise_floor(clock: InterleavedTimer, turns: tuple[float, ...]) -> float | None:
    """Half-width of the interval of the baseline's odd turns against its even ones."""
    odd, even = turns[::2], turns[1::2]
    if len(even) < 2:
        return None
    _, interval = clock.ratio(odd[: len(even)], even)
    return (interval.high - interval.low) / 2
