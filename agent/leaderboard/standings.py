"""Computes a leaderboard from a stream of attempts; `board_records` defines its records."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, TypeAlias

from kernelwright.agent.leaderboard.board_records import (
    AtK,
    Best,
    Board,
    Entry,
    Estimate,
    FastP,
    ProblemEntry,
    Quartiles,
    Standing,
)
from kernelwright.agent.leaderboard.policy import SAMPLE_COUNTS, SPEEDUP_POINTS
from kernelwright.agent.leaderboard.rows import UNCONFIRMED, AttemptRows, grouped, of_track, read_rows
from kernelwright.agent.leaderboard.statistics import (
    Interval,
    best_at_k,
    bootstrap,
    fast_p,
    geometric_mean,
    mean,
    pass_at_k,
    quantile,
    ranks,
)
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.agent.records.score_policy import ScorePolicy
from kernelwright.agent.strategies import attempts_are_one_sample
from kernelwright.evaluator import Status, sha256_text

Sample: TypeAlias = list[float | None]
"""The speedups of a sample's attempts in their order; None for a failure."""
_RESAMPLES: Final = 1000
"""Draws of the bootstrap behind an interval."""


def board(attempts: Iterable[Attempt], *, seed: int = 0) -> Board:
    """Compute a leaderboard from a stream of attempts."""
    return board_of(read_rows(attempts), seed=seed)


def board_of(rows: AttemptRows, *, seed: int = 0, track: str | None = None) -> Board:
    """The same from rows; with a `track` (`own`, `mixed`, `library`) a pass of another one is a failure."""
    evaluated = rows.evaluated if track is None else of_track(rows.evaluated, track)
    tables = grouped(evaluated, place)
    # Most used first.
    order = sorted(tables, key=lambda of: (of[0], -len(tables[of]), str(of[1])))
    return Board(
        entries=tuple(entry for of in order for entry in _ranked(_entries(of, tables[of], seed=seed))),
        problems=tuple(
            _problem(of, group)
            for of in order
            for _, group in sorted(grouped(tables[of], lambda row: row.problem).items())
        ),
        attempts=len(rows.evaluated),
        unjudged=rows.unevaluated,
    )


def place(row: AttemptView) -> tuple[str, ScorePolicy]:
    """Backend and policy, which comparable scores share."""
    return row.backend, row.policy


def by_table(board: Board) -> Iterator[tuple[list[Entry], str]]:
    """The entries of each table, and its policy as far as it differs from that of the backend's first one."""
    first: dict[str, Standing] = {}
    for _, members in groupby(board.entries, key=lambda entry: (entry.of.backend, entry.of.policy)):
        entries = list(members)
        of = entries[0].of
        differences = of.policy.differences(first.setdefault(of.backend, of).policy)
        yield entries, "; ".join(differences.values())


def fastest(rows: Iterable[AttemptView]) -> AttemptView | None:
    """The correct row to show first; unsanitized ones, where the tools exist, and unfit ones come last."""
    correct = [row for row in rows if row.speedup is not None]
    return max(correct, key=lambda row: (not row.is_doubted, not row.unfit, row.speedup or 0.0), default=None)


def _entries(of: tuple[str, ScorePolicy], table: list[AttemptView], *, seed: int) -> list[Entry]:
    """The entries of one table, compared at the most attempts that all of them made at a problem."""
    members = [rows for _, rows in sorted(grouped(table, lambda row: (row.model, row.strategy)).items())]
    drawn = [_by_problem(rows) for rows in members]
    equal: dict[str, int] = {}
    for by_problem in drawn:
        for problem, made in by_problem.items():
            equal[problem] = min(sum(map(len, made)), equal.get(problem, sys.maxsize))
    return [
        _entry(of, rows, by_problem, equal, seed=seed)
        for rows, by_problem in zip(members, drawn, strict=True)
    ]


def _entry(
    of: tuple[str, ScorePolicy],
    rows: list[AttemptView],
    by_problem: dict[str, list[Sample]],
    equal: Mapping[str, int],
    *,
    seed: int,
) -> Entry:
    bests = [[_best(made) for made in of_problem] for of_problem in by_problem.values()]
    best = [_best(of_problem) for of_problem in bests]
    solved = [speedup for speedup in best if speedup is not None]
    logs = [_log(speedup) for speedup in best]
    tokens, costs = (
        sum(row.tokens for row in rows),
        [row.cost_usd for row in rows if row.cost_usd is not None],
    )
    cheats = sum(row.is_cheat for row in rows)
    hits = [[fast_p([speedup], p) for speedup in best] for p in SPEEDUP_POINTS]
    at_equal = [_best_of_attempts(made, equal[problem]) for problem, made in by_problem.items()]
    around, around_equal, *shares = bootstrap([logs, at_equal, *hits], samples=_RESAMPLES, seed=seed)
    return Entry(
        of=Standing(model=rows[0].model, strategy=rows[0].strategy, backend=of[0], **dict(of[1])),
        rank=0,
        ranked=_mean_speedup(at_equal, around_equal),
        ranked_k=mean([equal[problem] for problem in by_problem]),
        problems=len(by_problem),
        problem_set=sha256_text("\0".join(sorted(by_problem)))[:8],
        solved=len(solved),
        attempts=len(rows),
        per_problem=len(rows) / len(by_problem),
        samples=sum(map(len, by_problem.values())),
        statuses=_counts(row.ended for row in rows),
        fast_p=tuple(
            FastP(p=p, per_attempt=_per_attempt(rows, p), best=_estimate(mean(hit), share))
            for p, hit, share in zip(SPEEDUP_POINTS, hits, shares, strict=True)
        ),
        geomean=_mean_speedup(logs, around),
        geomean_solved=geometric_mean(solved),
        speedups=tuple(sorted(solved, reverse=True)),
        at_k=tuple(_at_k(bests)),
        tracks=_counts(row.track or "unknown" for row in rows if row.status is Status.PASSED),
        speed_of_light=_quartiles(rows),
        doubted=_doubted(rows),
        unconfirmed=len({row.problem for row in rows if row.unfit == UNCONFIRMED}),
        cheats=cheats,
        cheating_rate=cheats / len(rows),
        tokens=tokens,
        cost_usd=math.fsum(costs),
        unpriced=len(rows) - len(costs),
        tokens_per_solved=tokens / len(solved) if solved else None,
        cost_per_solved_usd=math.fsum(costs) / len(solved) if solved and len(costs) == len(rows) else None,
    )


def _doubted(rows: list[AttemptView]) -> int:
    by_problem = grouped(rows, lambda row: row.problem)
    best = [max(of_one, key=lambda row: row.speedup or 0.0) for of_one in by_problem.values()]
    return sum(row.is_doubted and row.speedup is not None for row in best)


def _ranked(entries: list[Entry]) -> list[Entry]:
    """The entries of one table with their ranks, best first.

    An entry with an unsanitized best kernel, where the tools exist, is not first beside one without.
    """
    members = sorted(entries, key=lambda entry: -entry.ranked.value)
    checked = [entry for entry in members if not entry.doubted]
    among_checked = zip(checked, ranks([entry.ranked for entry in checked]), strict=True)
    among_all = zip(members, ranks([entry.ranked for entry in members]), strict=True)
    named = [entry.model_copy(update={"rank": rank}) for entry, rank in among_checked]
    named += [
        entry.model_copy(update={"rank": max(rank, 2 if checked else 1)})
        for entry, rank in among_all
        if entry.doubted
    ]
    return sorted(named, key=lambda entry: (entry.rank, -entry.ranked.value))


def _by_problem(rows: list[AttemptView]) -> dict[str, list[Sample]]:
    """Each problem's samples.

    A sample all of whose replies another run has is the one it repeats: k of n must be n that were drawn.
    """
    joint = {name for name in {row.strategy for row in rows} if attempts_are_one_sample(name)}
    made = grouped(rows, lambda row: (row.problem, row.run, 0 if row.strategy in joint else row.sample))
    found: dict[str, dict[object, Sample]] = {}
    for (problem, _, sample), replies in made.items():
        samples = found.setdefault(problem, {})
        said = sample, tuple(sorted(row.reply for row in replies))
        in_order = sorted(replies, key=lambda row: (row.turn, row.sample))
        own = [row.speedup for row in in_order]
        samples[said] = [_best(both) for both in zip(own, samples.get(said, own), strict=True)]
    return {problem: list(samples.values()) for problem, samples in sorted(found.items())}


def _best(speedups: Iterable[float | None]) -> float | None:
    return max((speedup for speedup in speedups if speedup is not None), default=None)


def _log(speedup: float | None) -> float:
    """Logarithm of a speedup; a failure counts as 1.0, for the reference is still there."""
    return 0.0 if speedup is None else math.log(speedup)


def _per_attempt(rows: list[AttemptView], p: float) -> float:
    by_problem = grouped(rows, lambda row: row.problem)
    return mean([fast_p([row.speedup for row in of_one], p) for of_one in by_problem.values()])


def _at_k(problems: list[list[float | None]]) -> Iterable[AtK]:
    most = min(len(samples) for samples in problems)
    for k in (k for k in SAMPLE_COUNTS if k <= most):
        right = [pass_at_k(len(samples), sum(s is not None for s in samples), k) for samples in problems]
        logs = [best_at_k(_rising_logs(samples), k) for samples in problems]
        yield AtK(k=k, passed=mean(right), speedup=math.exp(mean(logs)))


def _best_of_attempts(made: list[Sample], k: int) -> float:
    """The expected logarithm of the best of k attempts, in whole samples as far as they fit in.

    Samples of several attempts, such as conversations, are drawn as often as they have k attempts on average;
    of longer ones the first k attempts count.
    """
    whole = k * len(made) // sum(map(len, made))
    parts = made if whole else [attempts[:k] for attempts in made]
    return best_at_k(_rising_logs([_best(attempts) for attempts in parts]), max(whole, 1))


def _rising_logs(samples: list[float | None]) -> list[float]:
    # Any correct kernel is preferred to a failure, even one slower than the reference.
    return [_log(speedup) for speedup in sorted(samples, key=lambda speedup: speedup or 0.0)]


def _mean_speedup(logs: list[float], around: Interval | None) -> Estimate:
    return _estimate(math.exp(mean(logs)), around and Interval(math.exp(around.low), math.exp(around.high)))


def _quartiles(rows: list[AttemptView]) -> Quartiles | None:
    values = sorted(
        row.speed_of_light for row in rows if row.status is Status.PASSED and row.speed_of_light is not None
    )
    if not values:
        return None
    return Quartiles(low=quantile(values, 0.25), median=quantile(values, 0.5), high=quantile(values, 0.75))


def _counts(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def _estimate(value: float, around: Interval | None) -> Estimate:
    return Estimate(value=value, low=around.low if around else None, high=around.high if around else None)


def _problem(of: tuple[str, ScorePolicy], rows: list[AttemptView]) -> ProblemEntry:
    best = fastest(rows)
    shared = {name: getattr(best, name) for name in Best.model_fields} if best else {}
    return ProblemEntry(
        problem=rows[0].problem,
        backend=of[0],
        **dict(of[1]),
        attempts=len(rows),
        passed=sum(row.speedup is not None for row in rows),
        flaws=tuple(dict.fromkeys(flaw for row in rows for flaw in row.flaws)),
        best=Best(**shared) if best else None,
    )
