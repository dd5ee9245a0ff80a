"""A leaderboard for the terminal: standings, statuses and the best kernel of each problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kernelwright.agent.leaderboard import rows
from kernelwright.agent.leaderboard.board_records import Best, Board, Entry, ProblemEntry
from kernelwright.agent.leaderboard.display_text import name
from kernelwright.agent.leaderboard.run_comparison import Change, RunComparison, RunSide
from kernelwright.agent.leaderboard.standings import by_table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

LEAST_WORDS: Final = 8
"""Columns that a column of words has at least."""
GAP: Final = 2

LEGEND = (
    "#: whoever overlaps with the leader's interval shares its rank · k: the most attempts that all "
    "made at a problem, in the mean · best@k: geometric mean of the speedup expected of the best of k "
    "attempts, failures as 1.0, with its 95 % interval over problems; it decides the rank · tries: "
    "attempts a problem in all; more find faster kernels · mean: the same of the best of all tries · "
    "fast_p: share of problems whose best kernel is correct and more than p× the fastest baseline · "
    "solved mean: of solved problems alone · pass@k: chance that one of k samples is correct · "
    "roofline: median share of the roofline of correct kernels"
)
DOUBTED = (
    "†: a best kernel was not sanitized, though the tools exist on this hardware; it comes behind the others"
)
UNFIT = "‡: correct, but its measurement was disturbed or incomplete: it counts as 1.00×"
UNCONFIRMED = f"~: {rows.UNCONFIRMED}; of one run it counts as 1.00×"
FLAWED = "§: vetting calls the problem flawed, so that scores on it say little:"


def render(board: Board) -> RenderableType:
    """Everything, a table for each backend and policy."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for entries, differs in by_table(board):
        backend, policy = entries[0].of.backend, entries[0].of.policy
        problems = [one for one in board.problems if (one.backend, one.policy) == (backend, policy)]
        parts.append(Text(f"{name(backend)} · {name(str(policy))}", style="bold"))
        if differs:
            parts.append(Text(f"not to be compared with the first table: {name(differs)}", style="yellow"))
        for table in _tables(entries, problems):
            parts += [table, Text()]
    shown = "".join(_marks(entry, entry.best) for entry in board.problems if entry.best)
    flawed = {entry.problem: ", ".join(entry.flaws) for entry in board.problems if entry.flaws}
    told = "; ".join(f"{name(problem)} ({name(flaws)})" for problem, flaws in flawed.items())
    notes = {
        LEGEND: True,
        DOUBTED: any(entry.doubted for entry in board.entries),
        UNFIT: "‡" in shown,
        UNCONFIRMED: "~" in shown,
        f"{FLAWED} {told}": flawed,
    }
    parts += [Text(note, style="dim") for note, is_meant in notes.items() if is_meant]
    if board.unjudged:
        parts.append(Text(f"{board.unjudged} replies wait to be evaluated and count nowhere", style="yellow"))
    return Group(*parts)


def render_comparison(comparison: RunComparison) -> RenderableType:
    """Two runs side by side: how much of what, then problem by problem."""
    from rich.console import Group
    from rich.text import Text

    colours = {
        Change.NEWLY_SOLVED: "green",
        Change.BETTER: "green",
        Change.NEWLY_LOST: "red",
        Change.WORSE: "red",
    }
    counts = Text()
    for kind, count in comparison.counts.items():
        counts.append(" · " if counts else "")
        counts.append(f"{count} {kind}", style=colours.get(kind, "") if count else "dim")
    places = {f"{row.backend} · {row.policy}" for row in comparison.differences}
    is_mixed = len(places) > 1
    table = FittingTable(["problem", *(["on"] if is_mixed else []), "change", "before>", "after>", "why"])
    for row in comparison.differences:
        where = [f"{row.backend} · {row.policy}"] if is_mixed else []
        cells = [row.problem, *where, row.change, _told(row.before), _told(row.after), row.why]
        table.add_row(*cells, change=colours.get(row.change, ""))
    heading = Text(f"{comparison.before} → {comparison.after}", style="bold")
    heading.append("" if is_mixed else f"  {', '.join(map(name, places))}", style="not bold")
    return Group(heading, counts, Text(), table)


def _told(side: RunSide | None) -> str:
    if side is None:
        return "not tried"
    if side.speedup is None:
        return f"0/{side.attempts} right"
    return f"{side.speedup:.2f}× {_between(side.low, side.high)} of {side.attempts}"


def _tables(entries: list[Entry], problems: list[ProblemEntry]) -> Iterator[FittingTable]:
    """Standings, costs, statuses and the best kernels of one backend under one policy."""
    k = min((entry.at_k[-1].k for entry in entries if entry.at_k), default=1)
    yield FittingTable.of(
        {
            "#>": f"{entry.rank}{'†' if entry.doubted else ''}",
            "model": entry.of.model,
            "strategy": entry.of.strategy,
            "k>": f"{entry.ranked_k:.3g}",
            "best@k>": f"{entry.ranked.value:.2f}×",
            "interval>": _between(entry.ranked.low, entry.ranked.high),
            "tries>": f"{entry.per_problem:.3g}",
            "mean>": f"{entry.geomean.value:.2f}×",
            **{f"fast_{point.p:g}>": f"{point.best.value:.0%}" for point in entry.fast_p},
        }
        for entry in entries
    )
    yield FittingTable.of(
        {
            "model": entry.of.model,
            "strategy": entry.of.strategy,
            "solved>": f"{entry.solved}/{entry.problems}",
            "solved mean>": f"{entry.geomean_solved:.2f}×" if entry.geomean_solved is not None else "-",
            **{f"pass@{at.k}>": f"{at.passed:.0%}" for at in entry.at_k if at.k in (1, k)},
            "roofline>": f"{entry.speed_of_light.median:.0%}" if entry.speed_of_light else "-",
            "cheats>": f"{entry.cheating_rate:.0%}" if entry.cheats else "0",
            "tokens>": f"{entry.tokens:,}",
            "per solved>": _price(entry),
        }
        for entry in entries
    )
    yield FittingTable.of(
        {
            "model": entry.of.model,
            "strategy": entry.of.strategy,
            "attempts>": str(entry.attempts),
            "how they ended": " · ".join(f"{count} {status}" for status, count in ended),
        }
        for entry in entries
        for ended in [sorted(entry.statuses.items(), key=lambda pair: (pair[0] != "PASSED", -pair[1]))]
    )
    yield FittingTable.of(
        {
            "problem": f"{entry.problem}{'§' if entry.flaws else ''}",
            "best by": best.model if best else "-",
            "passed>": f"{entry.passed}/{entry.attempts}",
            "best>": f"{best.speedup:.2f}×{_marks(entry, best)}" if best else "-",
            "interval>": _between(best.low, best.high) if best else "-",
            "track": (best.track or "-") if best else "-",
        }
        for entry in problems
        for best in [entry.best]
    )


def _marks(entry: ProblemEntry, best: Best) -> str:
    is_measured_once = entry.passed > 1 and best.low is not None and not best.is_confirmed
    marks = {
        "†": best.is_doubted,
        "‡": best.unfit not in ("", rows.UNCONFIRMED),
        "~": is_measured_once or best.unfit == rows.UNCONFIRMED,
    }
    return "".join(mark for mark, is_meant in marks.items() if is_meant)


def _between(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.2f}–{high:.2f}"


def _price(entry: Entry) -> str:
    if entry.cost_per_solved_usd:
        return f"${entry.cost_per_solved_usd:.2f}"
    if entry.tokens_per_solved is None:
        return "-"
    unknown = "$ unknown, " if entry.cost_usd else ""
    return f"{unknown}{entry.tokens_per_solved:,.0f} tok"


@dataclass(slots=True)
class FittingTable:
    """Rows of strangers' words, made fit to be seen; a heading that ends with `>` is of numbers.

    Where the numbers would be cut in a terminal, each row becomes a line.
    """

    headings: Sequence[str]
    rows: list[tuple[Text, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, str]]) -> FittingTable:
        """A table of cells by heading, of one row at least."""
        told = list(rows)
        table = cls([*told[0]])
        for row in told:
            table.add_row(*row.values())
        return table

    def add_row(self, *cells: str, **styles: str) -> None:
        """Add a row; `styles` are those of columns, by heading."""
        from rich.text import Text

        styled = zip(self.headings, cells, strict=True)
        self.rows.append(tuple(Text(name(cell), styles.get(heading, "")) for heading, cell in styled))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The table, or its rows one by one."""
        if self._least_width() <= options.max_width:
            yield self._table()
        else:
            yield from self._lines()

    def _least_width(self) -> int:
        width = 0
        for column, heading in enumerate(self.headings):
            longest = max([len(heading.removesuffix(">")), *(len(row[column]) for row in self.rows)])
            width += GAP + (longest if heading.endswith(">") else min(longest, LEAST_WORDS))
        return width

    def _table(self) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        for heading in self.headings:
            # Numbers stand to the right and do not wrap.
            is_number = heading.endswith(">")
            table.add_column(
                heading.removesuffix(">"),
                justify="right" if is_number else "left",
                no_wrap=is_number,
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*row)
        return table

    def _lines(self) -> Iterator[RenderableType]:
        from rich.text import Text

        for row in self.rows:
            told = (
                f"{heading.removesuffix('>')} {cell}"
                for heading, cell in zip(self.headings, row, strict=True)
            )
            yield Text(" · ".join(told), overflow="fold")
