"""The standings as a template shows them: one table and one chart for each backend, hardware and policy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelwright.agent.leaderboard.board_records import Board, Entry
from kernelwright.agent.leaderboard.display_text import name
from kernelwright.agent.leaderboard.policy import ENTRIES_SHOWN, HUES
from kernelwright.agent.leaderboard.standings import by_table

WIDTH, HEIGHT = 720, 260
LEFT, BOTTOM, TOP, RIGHT = 66, 34, 12, 16


@dataclass(frozen=True, slots=True)
class StandingLine:
    """One entry with its drawing."""

    entry: Entry
    model: str
    strategy: str
    hue: int
    """A colour's number, from 0; `HUES` for grey."""
    curve: str
    """Path of fast_p over p."""
    low_x: float | None
    """The interval of the ranked speedup on a scale of 0 to 100 shared by the table."""
    mean_x: float
    high_x: float | None
    one_x: float
    """Position of 1.0 on it."""
    shares: tuple[tuple[str, int, float, float], ...]
    """Status, count, and the start and width of its part of a bar of 0 to 100."""


@dataclass(frozen=True, slots=True)
class StandingsTable:
    """One table."""

    title: tuple[str, ...]
    differs: str
    """The policy in words, as far as it differs from that of the backend's first table."""
    lines: tuple[StandingLine, ...]
    p_ticks: tuple[tuple[float, float], ...]
    """Values of p and their positions in the chart."""
    one_x: float
    """Position of a speedup of 1.0."""
    share_ticks: tuple[tuple[str, float], ...]
    left_out: int
    """Entries without room."""
    has_costs: bool
    """True when any reply cost anything."""
    problem_sets: int
    """Different sets of problems the entries were measured on."""


def tables(board: Board, *, most: int = ENTRIES_SHOWN) -> list[StandingsTable]:
    """Every table of a board, in its order, with `most` lines in all."""
    found = []
    for entries, differs in by_table(board):
        shown = entries[:most]
        most -= len(shown)
        of = entries[0].of
        title = name(of.backend), name(of.policy.hardware or ""), name(of.policy.terms)
        found.append(_table(title, name(differs), shown, len(entries) - len(shown)))
    return [table for table in found if table.lines]


def _table(title: tuple[str, ...], differs: str, entries: Sequence[Entry], left_out: int) -> StandingsTable:
    fastest = max((entry.speedups[0] for entry in entries if entry.speedups), default=1.0)
    end = min(max(2.5, math.ceil(fastest * 2.1) / 2), 10.0)
    scale = _log_scale(entries)
    lines = tuple(_line(entry, number, end, scale) for number, entry in enumerate(entries))
    step = 0.5 if end <= 4 else 1.0 if end <= 7 else 2.0
    values = [round(step * number, 1) for number in range(int(end / step) + 1)]
    return StandingsTable(
        title=title,
        differs=differs,
        lines=lines,
        p_ticks=tuple((value, _x(value, end)) for value in values),
        one_x=_x(1.0, end),
        share_ticks=tuple((f"{share}%", _y(share / 100)) for share in (0, 25, 50, 75, 100)),
        left_out=left_out,
        has_costs=any(entry.cost_usd for entry in entries),
        problem_sets=len({entry.problem_set for entry in entries}),
    )


def _line(entry: Entry, number: int, end: float, scale: tuple[float, float]) -> StandingLine:
    low, high = entry.ranked.low, entry.ranked.high
    return StandingLine(
        entry=entry,
        model=name(entry.of.model),
        strategy=name(entry.of.strategy),
        hue=min(number, HUES),
        curve=curve(entry.speedups, entry.problems, end),
        low_x=None if low is None else _place(low, scale),
        mean_x=_place(entry.ranked.value, scale),
        high_x=None if high is None else _place(high, scale),
        one_x=_place(1.0, scale),
        shares=tuple(_shares(entry.statuses)),
    )


def curve(speedups: Sequence[float], problems: int, end: float) -> str:
    """The SVG path of fast_p for p from 0 to `end`; `speedups` fall, a share is of `problems`."""
    share = len(speedups) / problems
    parts = [f"M{_x(0, end):g} {_y(share):g}"]
    # Steps closer than a third of a unit are one: a path stays short however many problems there are.
    steps: dict[int, tuple[float, float]] = {}
    for left, speedup in zip(range(len(speedups) - 1, -1, -1), reversed(speedups), strict=True):
        if speedup < end:
            across = _x(speedup, end)
            steps[round(across * 3)] = across, _y(left / problems)
    parts += [f"H{across:g}V{up:g}" for across, up in steps.values()]
    return "".join([*parts, f"H{_x(end, end):g}"])


def _x(p: float, end: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * p / end, 1)


def _y(share: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share, 1)


def _log_scale(entries: Iterable[Entry]) -> tuple[float, float]:
    ends = [1.0]
    for entry in entries:
        ends += [value for value in (entry.ranked.low, entry.ranked.value, entry.ranked.high) if value]
    low, high = math.log(min(ends)), math.log(max(ends))
    spare = max(0.05, (high - low) * 0.06)
    return low - spare, high + spare


def _place(value: float, scale: tuple[float, float]) -> float:
    low, high = scale
    return round(100 * (math.log(max(value, 1e-9)) - low) / (high - low), 1)


def _shares(statuses: dict[str, int]) -> Iterable[tuple[str, int, float, float]]:
    total, begin = sum(statuses.values()), 0.0
    for status, count in sorted(statuses.items(), key=lambda pair: (pair[0] != "PASSED", -pair[1])):
        width = 100 * count / total
        yield status, count, round(begin, 2), round(width, 2)
        begin += width
