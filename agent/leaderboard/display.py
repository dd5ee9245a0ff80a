"""A leaderboard for the terminal: standings, statuses and the best kernel of each problem."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from agent.leaderboard.entries import Board, Entry, Estimate, ProblemEntry

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

LEGEND = (
    "fast_p: share of problems whose best kernel is right and more than p× the best baseline · "
    "mean: geometric, of each problem's best, failures as 1.0; in brackets the 95 % interval over problems · "
    "pass@1: chance of one sample · entries whose intervals overlap with the leader's share its rank"
)


def render(board: Board) -> RenderableType:
    """Everything, a board for each backend, hardware and policy."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for place, members in groupby(board.entries, key=_place):
        entries = list(members)
        parts += [
            Text(" · ".join(place), style="bold"),
            _standings(entries),
            Text(),
            _statuses(entries),
            Text(),
        ]
        parts += [_problems([entry for entry in board.problems if _place_of_problem(entry) == place]), Text()]
    parts.append(Text(LEGEND, style="dim"))
    if board.unjudged:
        parts.append(Text(f"{board.unjudged} replies wait to be judged and count nowhere", style="yellow"))
    return Group(*parts)


def _standings(entries: list[Entry]) -> Table:
    points = [f"fast_{point.p:g}" for point in entries[0].fast_p]
    headings = (
        "#",
        "model",
        "strategy",
        "solved",
        *points,
        "mean",
        "solved mean",
        "pass@1",
        "cheats",
        "per solved",
    )
    table = _table(headings, left=2)
    for entry in entries:
        table.add_row(
            str(entry.rank),
            entry.of.model,
            entry.of.strategy,
            f"{entry.solved}/{entry.problems}",
            *(f"{point.best.value:.0%}" for point in entry.fast_p),
            _speed(entry.geomean),
            f"{entry.geomean_solved:.2f}×" if entry.geomean_solved is not None else "-",
            f"{entry.at_k[0].passed:.0%}" if entry.at_k else "-",
            f"{entry.cheating_rate:.0%}" if entry.cheats else "0",
            _price(entry),
        )
    return table


def _statuses(entries: list[Entry]) -> Table:
    names = sorted({status for entry in entries for status in entry.statuses})
    names.sort(key=lambda name: name != "PASSED")
    table = _table(("model", "strategy", "attempts", *names), left=2)
    for entry in entries:
        counts = (str(entry.statuses.get(name, "")) for name in names)
        table.add_row(entry.of.model, entry.of.strategy, str(entry.attempts), *counts)
    return table


def _problems(entries: list[ProblemEntry]) -> Table:
    table = _table(("problem", "model", "attempts", "passed", "best", "interval", "track"), left=2)
    for entry in entries:
        best = entry.best
        interval = f"{best.low:.2f}–{best.high:.2f}" if best and best.low is not None and best.high else "-"
        table.add_row(
            entry.problem,
            best.model if best else "-",
            str(entry.attempts),
            str(entry.passed),
            f"{best.speedup:.2f}×" if best else "-",
            interval,
            (best.track or "-") if best else "-",
        )
    return table


def _table(headings: tuple[str, ...], *, left: int) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, heading in enumerate(headings):
        is_text = number < left or heading in ("strategy", "track")
        table.add_column(heading, justify="left" if is_text else "right", overflow="fold", style=None)
    return table


def _speed(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}×"
    return f"{estimate.value:.2f}× [{estimate.low:.2f}–{estimate.high:.2f}]"


def _price(entry: Entry) -> str:
    if entry.cost_per_solved_usd:
        return f"${entry.cost_per_solved_usd:.2f}"
    return f"{entry.tokens_per_solved:,.0f} tokens" if entry.tokens_per_solved is not None else "-"


def _place(entry: Entry) -> tuple[str, ...]:
    return _terms(entry.of.backend, entry.of.hardware, entry.of.math, entry.of.dtype, entry.of.shapes)


def _place_of_problem(entry: ProblemEntry) -> tuple[str, ...]:
    return _terms(entry.backend, entry.hardware, entry.math, entry.dtype, entry.shapes)


def _terms(backend: str, hardware: str, math: str, dtype: str, shapes: str | None) -> tuple[str, ...]:
    precision = math if dtype == "as_is" else f"{math} on {dtype}"
    return (backend, hardware, precision, *([f"shapes {shapes}"] if shapes else []))
