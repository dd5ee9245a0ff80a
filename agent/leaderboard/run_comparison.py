"""Compares two runs problem by problem; pure.

It compares the best correct kernels of one problem with one backend under one policy, each the best of
equally many attempts: the first ones of the run that made more. A difference counts only where the 95 %
intervals of the two speedups do not overlap, and both were measured again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TypeAlias

from kernelwright.agent.leaderboard.rows import grouped
from kernelwright.agent.leaderboard.standings import fastest, place
from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.agent.records.score_policy import ScorePolicy
from kernelwright.evaluator import Record

MeasureAgain: TypeAlias = Callable[[AttemptView], AttemptView]
"""Measures the kernel of an attempt again; without an interval where it does not pass any more."""


class Change(StrEnum):
    """The change of a problem from one run to the other."""

    NEWLY_SOLVED = "newly solved"
    NEWLY_LOST = "newly lost"
    BETTER = "better"
    WORSE = "worse"
    APART = "apart (measured once)"
    IDENTICAL = "identical"
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
    is_confirmed: bool = False
    """Measured again after it was the best of several."""
    attempts: int
    """Evaluated attempts that were compared."""
    made: int
    """Evaluated attempts that the run made."""
    passed: int


class Difference(ScorePolicy):
    """One problem in both runs."""

    problem: str
    backend: str
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
    rows: Iterable[AttemptView],
    before: str,
    after: str,
    *,
    equal_attempts: bool = True,
    again: MeasureAgain | None = None,
) -> RunComparison:
    """Compare the results of two runs on the same problems.

    Without `equal_attempts` the best of all attempts are compared, however many either run made. With `again`
    two kernels are better or worse only if a second measurement of both says so.
    """
    of_both = grouped(
        (row for row in rows if row.run in (before, after)), lambda row: (row.problem, *place(row))
    )
    found = [
        _difference(of, sides.get(before, []), sides.get(after, []), equal_attempts, again)
        for of in sorted(of_both, key=lambda of: (*of[:2], str(of[2])))
        for sides in [grouped(of_both[of], lambda row: row.run)]
    ]
    seen = Counter(difference.change for difference in found)
    order = list(Change)
    return RunComparison(
        before=before,
        after=after,
        counts={change: seen[change] for change in order},
        differences=tuple(sorted(found, key=lambda difference: order.index(difference.change))),
    )


def _difference(
    of: tuple[str, str, ScorePolicy],
    before: list[AttemptView],
    after: list[AttemptView],
    equal_attempts: bool,
    again: MeasureAgain | None,
) -> Difference:
    problem, backend, policy = of
    most = min(len(before), len(after)) if equal_attempts and before and after else None
    change, why = _decide(before[:most], after[:most], again)
    return Difference(
        problem=problem,
        backend=backend,
        **dict(policy),
        change=change,
        why=why,
        before=_side(before, most),
        after=_side(after, most),
    )


def _decide(
    before: list[AttemptView], after: list[AttemptView], again: MeasureAgain | None
) -> tuple[Change, str]:
    if not before or not after:
        return Change.NOT_COMPARABLE, f"only the {'second' if after else 'first'} run tried it on these terms"
    shas = {row.problem_sha for row in before} | {row.problem_sha for row in after}
    if len(shas) > 1:
        return Change.NOT_COMPARABLE, "the problem's source has changed"
    then, now = fastest(before), fastest(after)
    if then is None or now is None:
        return _solved(then, now)
    if then.candidate and then.candidate == now.candidate:
        return Change.IDENTICAL, "the same kernel"
    change, why = _faster(then, now)
    if change not in (Change.BETTER, Change.WORSE):
        return change, why
    if again is None:
        is_sure = then.is_confirmed and now.is_confirmed
        return change if is_sure else Change.APART, f"{why}{'' if is_sure else f', {change}'}"
    first, second = again(then), again(now)
    change, second_why = _faster(first, second)
    return change, f"{_times(first)} and {_times(second)} when measured again: {second_why}"


def _solved(then: AttemptView | None, now: AttemptView | None) -> tuple[Change, str]:
    if now is not None:
        return Change.NEWLY_SOLVED, f"nothing was right; now {_times(now)}"
    if then is not None:
        return Change.NEWLY_LOST, f"{_times(then)} then; nothing is right now"
    return Change.UNSOLVED, "nothing is right in either run"


def _faster(then: AttemptView, now: AttemptView) -> tuple[Change, str]:
    if unfit := now.unfit or then.unfit:
        return Change.NOT_COMPARABLE, f"right in both; {unfit}"
    if then.low is None or then.high is None or now.low is None or now.high is None:
        return Change.NOT_COMPARABLE, "right in both; its speed was not measured both times"
    if now.low > then.high:
        return Change.BETTER, f"the intervals are {now.low - then.high:.2f} apart"
    if now.high < then.low:
        return Change.WORSE, f"the intervals are {then.low - now.high:.2f} apart"
    return Change.WITHIN_NOISE, "the intervals meet"


def _times(row: AttemptView) -> str:
    if not row.passed:
        return row.ended
    return "right, not timed" if row.low is None else f"{row.speedup or 1.0:.2f}×"


def _side(rows: list[AttemptView], most: int | None) -> RunSide | None:
    if not rows:
        return None
    compared = rows[:most]
    best = fastest(compared)
    counts = {"attempts": len(compared), "made": len(rows)}
    counts["passed"] = sum(row.speedup is not None for row in compared)
    names = ("model", "strategy", "attempt", "speedup", "low", "high", "is_confirmed")
    return RunSide(**counts, **({name: getattr(best, name) for name in names} if best else {}))
