"""Compares two runs problem by problem; pure.

It compares the best correct kernels of one problem with one backend on one hardware under one policy. A
difference counts only where the 95 % intervals of the two speedups do not overlap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from enum import StrEnum

from kernelwright.agent.leaderboard.rows import AttemptRow
from kernelwright.agent.leaderboard.standings import fastest, place
from kernelwright.evaluator import Dtype, Math, Passes, Record


class Change(StrEnum):
    """The change of a problem from one run to the other."""

    NEWLY_SOLVED = "newly solved"
    NEWLY_LOST = "newly lost"
    BETTER = "better"
    WORSE = "worse"
    WITHIN_NOISE = "within noise"
    UNSOLVED = "unsolved in both"
    NOT_COMPARABLE = "not comparable"


class RunSide(Record):
    """One run's best kernel for a problem; without a speedup nothing passed."""

    model: str | None = None
    strategy: str | None = None
    attempt: str | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    attempts: int
    """Evaluated attempts."""
    passed: int


class Difference(Record):
    """One problem in both runs."""

    problem: str
    backend: str
    hardware: str
    math: Math
    dtype: Dtype
    shapes: str | None
    passes: Passes = Passes.FORWARD
    change: Change
    why: str
    """One line for people."""
    before: RunSide | None
    """None where the run did not try it."""
    after: RunSide | None


class RunComparison(Record):
    """Two runs, problem by problem."""

    before: str
    after: str
    counts: dict[Change, int]
    """Every kind of change, those that did not happen included."""
    differences: tuple[Difference, ...]


def compare_runs(
    rows: Iterable[AttemptRow], before: str, after: str, *, same_baselines: bool = False
) -> RunComparison:
    """Compare the results of two runs on the same problems.

    `same_baselines` says that both runs timed the same baselines, so that a speedup against the fastest means
    the same in both; without it, speedups against different baselines are not compared.
    """
    sides: defaultdict[tuple[str, ...], dict[str, list[AttemptRow]]] = defaultdict(dict)
    for row in rows:
        if row.run in (before, after):
            sides[(row.problem, *place(row))].setdefault(row.run, []).append(row)
    found = [
        _difference(of_runs.get(before, []), of_runs.get(after, []), same_baselines)
        for _, of_runs in sorted(sides.items())
    ]
    seen = Counter(difference.change for difference in found)
    order = list(Change)
    return RunComparison(
        before=before,
        after=after,
        counts={change: seen[change] for change in order},
        differences=tuple(sorted(found, key=lambda difference: order.index(difference.change))),
    )


def _difference(before: list[AttemptRow], after: list[AttemptRow], same_baselines: bool) -> Difference:
    of = (before or after)[0]
    change, why = _decide(before, after, same_baselines)
    return Difference(
        problem=of.problem,
        backend=of.backend,
        hardware=of.hardware or "",
        math=of.policy.math,
        dtype=of.policy.dtype,
        shapes=of.policy.shapes,
        passes=of.policy.passes,
        change=change,
        why=why,
        before=_side(before),
        after=_side(after),
    )


def _decide(before: list[AttemptRow], after: list[AttemptRow], same_baselines: bool) -> tuple[Change, str]:
    if not before or not after:
        return Change.NOT_COMPARABLE, f"only the {'second' if after else 'first'} run tried it on these terms"
    shas = {row.problem_sha for row in before} | {row.problem_sha for row in after}
    if len(shas) > 1:
        return Change.NOT_COMPARABLE, "the problem's source has changed"
    then, now = fastest(before), fastest(after)
    if then is None or now is None:
        return _solved(then, now)
    return _faster(then, now, same_baselines)


def _solved(then: AttemptRow | None, now: AttemptRow | None) -> tuple[Change, str]:
    if now is not None:
        return Change.NEWLY_SOLVED, f"nothing was right; now {_times(now)}"
    if then is not None:
        return Change.NEWLY_LOST, f"{_times(then)} then; nothing is right now"
    return Change.UNSOLVED, "nothing is right in either run"


def _faster(then: AttemptRow, now: AttemptRow, same_baselines: bool) -> tuple[Change, str]:
    if then.low is None or then.high is None or now.low is None or now.high is None:
        return Change.NOT_COMPARABLE, "right in both; its speed was not measured both times"
    if not same_baselines and then.against != now.against:
        return Change.NOT_COMPARABLE, f"speedup was against {then.against}, now {now.against}"
    if now.low > then.high:
        return Change.BETTER, f"the intervals are {now.low - then.high:.2f} apart"
    if now.high < then.low:
        return Change.WORSE, f"the intervals are {then.low - now.high:.2f} apart"
    return Change.WITHIN_NOISE, "the intervals meet"


def _times(row: AttemptRow) -> str:
    return "right, not timed" if row.low is None else f"{row.speedup or 1.0:.2f}×"


def _side(rows: list[AttemptRow]) -> RunSide | None:
    if not rows:
        return None
    best = fastest(rows)
    counts = {"attempts": len(rows), "passed": sum(row.speedup is not None for row in rows)}
    if best is None:
        return RunSide(**counts)
    return RunSide(
        model=best.model,
        strategy=best.strategy,
        attempt=best.attempt,
        speedup=best.speedup,
        low=best.low,
        high=best.high,
        **counts,
    )
