"""One evaluation as a card for people: status, evidence, and the protection of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kernelwright as kw
from kernelwright.agent.cli.evaluation.policy import EXCERPT_LINES
from kernelwright.agent.cli.terminal.console import colour, line, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType


def card(evaluation: kw.Evaluation) -> RenderableType:
    """A compact panel."""
    from rich.box import ROUNDED
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from kernelwright.agent.leaderboard.evaluation_facts import facts_of

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in facts_of(evaluation):
        table.add_row(label, Text(plain(value)))
    extras = [Text(plain(text), style="dim") for text in _excerpts(evaluation)]
    title = Text(f" {evaluation.status} ", style=f"bold {colour(evaluation.status)}")
    title.append(f"{line(f'{evaluation.problem} · {evaluation.backend}')} ", style="not bold default")
    return Panel(
        Group(table, *extras),
        title=title,
        title_align="left",
        box=ROUNDED,
        border_style=colour(evaluation.status),
    )


def _excerpts(evaluation: kw.Evaluation) -> Iterator[str]:
    for build in evaluation.builds:
        lines = [
            said for said in build.log.splitlines() if said.strip() and said.strip() not in evaluation.detail
        ]
        if not build.ok and lines:
            yield "\n" + "\n".join(lines[:EXCERPT_LINES])
    if evaluation.output_tail.strip() and evaluation.speedup is None:
        printed = "\n".join(evaluation.output_tail.splitlines()[-EXCERPT_LINES:])
        yield f"\nthe candidate printed:\n{printed}"
