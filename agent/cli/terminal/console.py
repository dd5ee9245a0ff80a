"""Consoles, tables, colours of statuses, and text of strangers made safe to print."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from rich.console import Console

    from kernelwright.agent.records.score_policy import ScorePolicy

PIPE_WIDTH: Final = 120
"""Columns of what stands in a file or a pipe, which has no width of its own."""
PIPED_TABLE_WIDTH: Final = 160
"""The same of tables: of most, a row is then a line."""

MAX_LINE: Final = 200
"""Characters of a text that stands beside others; the log has the rest."""

WHOLE: Final = frozenset(("kernel", "run", "attempt", "problem", "status", "speedup", "time", "size", "95 %"))
"""Columns that are never wrapped: people copy from them, or compare down them."""

_COLOURS: Final = MappingProxyType(
    {
        "PASSED": "green",
        **dict.fromkeys(("TAMPERED", "IMPLAUSIBLE"), "magenta"),
        **dict.fromkeys(("NO_CODE", "TRUNCATED"), "yellow"),
    }
)

_ASCII: Final = str.maketrans(
    {"×": "x", "–": "-", "·": "|", "→": "->", "†": "+", "‡": "++", "§": "!", "…": "...", "⟨": "<", "⟩": ">"}
)
"""For our own signs; other characters a stream cannot encode are written as their numbers."""


def speak_ascii_where_needed() -> None:
    """Let standard output and error print every text in some way, whatever their encodings."""
    codecs.register_error("kernelwright", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="kernelwright")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    # Spelt as JSON does, for it may stand inside some.
    return json.dumps(error.object[error.start : error.end].translate(_ASCII))[1:-1], error.end


def out() -> Console:
    """The console for results: standard output, without guesses about markup in other people's text."""
    return _console()


def notes() -> Console:
    """The console for progress and remarks: standard error."""
    return _console(stderr=True)


def _console(*, stderr: bool = False, pipe_width: int = PIPE_WIDTH) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # A file or a pipe has no width of its own; tables should not be squeezed into 80 columns for it.
        console.width = pipe_width
    return console


def is_watched() -> bool:
    """Return whether a person watches standard error."""
    return sys.stderr.isatty()


def note_place(number: int, count: int, name: str) -> None:
    """Tell a person who watches which of several things is worked on, from 1."""
    if is_watched():
        notes().print(f"{number}/{count}  {name}", style="dim")


def print_table(headings: str, rows: Iterable[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """Print rows below headings: words between blanks, `_` for a blank, `>` before right-aligned ones."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings.split():
        justify: Literal["left", "right"] = "right" if heading.startswith(">") else "left"
        name = heading.lstrip(">").replace("_", " ")
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name in WHOLE)
    for index, row in enumerate(rows):
        table.add_row(*(line(cell) for cell in row), style=styles[index] if styles else None)
    _console(pipe_width=PIPED_TABLE_WIDTH).print(table)


def print_policy_tables(headings: str, rows: Iterable[tuple[ScorePolicy | None, Sequence[str], str]]) -> None:
    """Print rows with their styles, a table for each policy of their scores, the longest first."""
    tables: dict[ScorePolicy | None, list[tuple[Sequence[str], str]]] = {}
    for policy, row, style in rows:
        tables.setdefault(policy, []).append((row, style))
    for number, (policy, members) in enumerate(sorted(tables.items(), key=lambda table: -len(table[1]))):
        heading = f"{policy.id}: {line(str(policy))}" if policy else "not evaluated"
        out().print(f"{chr(10) if number else ''}{heading}", style="bold", soft_wrap=True)
        print_table(headings, [row for row, _ in members], [style for _, style in members])


def print_json(value: object) -> None:
    """Print a record, or what JSON can hold with records in it, on standard output."""
    from kernelwright.agent.records.strict_json import strict_json

    print(strict_json(value, indent=2))


def print_lines(lines: Iterable[tuple[str, object]], width: int = 9) -> None:
    """Print values behind their labels, each on a line of its own."""
    for label, value in lines:
        out().print(f"{label:<{width}}{line(str(value))}", soft_wrap=True)


def print_source(source: str) -> None:
    """Print Python source, coloured on a terminal, as it is elsewhere."""
    from rich.syntax import Syntax

    from kernelwright.evaluator import visible

    console = out()
    if console.is_terminal:
        console.print(Syntax(plain(source), "python", background_color="default"))
    else:
        # A pipe may end at a terminal; `--json` gives the source as it is.
        shown = visible(source)
        print(shown, end="" if shown.endswith("\n") else "\n")


def plain(text: str) -> str:
    """A stranger's text in which letters that cannot be seen, or steer a terminal, are written out."""
    from kernelwright.evaluator import visible

    return visible(text.replace("\r\n", "\n").expandtabs(4))


def line(text: str) -> str:
    """The same on one line: no text of a stranger can pass for another line of ours."""
    return " ".join(plain(text).split())


def shortened(text: str) -> str:
    """A text on one line that fits beside others."""
    said = line(text)
    return said if len(said) <= MAX_LINE else said[: MAX_LINE - 1] + "…"


def colour(status: str) -> str:
    """The colour a status is shown in."""
    return _COLOURS.get(status, "red")
