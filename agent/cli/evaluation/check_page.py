"""The report of `problems check` as one HTML file, in the leaderboard page's style."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.agent.cli.terminal.console import plain
from kernelwright.agent.records.durations import milliseconds

if TYPE_CHECKING:
    from kernelwright.evaluator import ProblemReport


def page(reports: Sequence[ProblemReport]) -> str:
    """The whole document; the style is the leaderboard page's."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from kernelwright.agent.leaderboard import html

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(" ".join(value.split())) if type(value) is str else value,
    )
    style = (Path(html.__file__).parent / "assets" / "page.css").read_text("utf-8")
    return environment.get_template("check_page.html").render(
        reports=[(report, table_row(report)) for report in reports],
        summary=summary(reports),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        devices=", ".join(sorted({report.device_name for report in reports if report.device_name})),
        style=Markup(style),  # our own file
    )


def summary(reports: Sequence[ProblemReport]) -> str:
    """One line: the number of problems, of sound ones, and of each flaw."""
    flawed = [report for report in reports if report.flaws]
    counts = Counter(name for report in flawed for name in {remark.name for remark in report.flaws})
    named = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    many = "problem" if len(reports) == 1 else "problems"
    return f"{len(reports)} {many}: {len(reports) - len(flawed)} sound, {len(flawed)} flawed" + (
        f" ({named})" if named else ""
    )


def table_row(report: ProblemReport) -> tuple[str, ...]:
    """Problem, shapes, time of one call, memory, and names of flaws and (notes)."""
    names = [*(remark.name for remark in report.flaws), *(f"({remark.name})" for remark in report.notes)]
    return (
        report.problem,
        report.shapes or "own",
        milliseconds(report.measured_ms) if report.measured_ms is not None else "-",
        _size(report.memory_bytes),
        ", ".join(dict.fromkeys(names)) or "sound",
    )


def _size(size: int | None) -> str:
    if size is None:
        return "-"
    return f"{size / 2**20:,.1f} MiB" if size < 2**30 else f"{size / 2**30:,.1f} GiB"
