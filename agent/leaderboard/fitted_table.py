"""A plain table that fits its terminal: where its numbers would be cut, each row becomes a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kernelwright.agent.leaderboard.display_text import name

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

LEAST_WORDS: Final = 8
"""Columns that a column of words has at least."""
GAP: Final = 2


@dataclass(slots=True)
class FittingTable:
    """Rows of strangers' words, made fit to be seen; a heading that ends with `>` is of numbers."""

    headings: Sequence[str]
    rows: list[tuple[Text, ...]] = field(default_factory=list)

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
