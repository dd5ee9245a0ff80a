"""`kernelwright leaderboard`: standings of models, strategies and backends, and comparisons of runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.agent.cli.results.runs import find_run
from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.failures import say_once
from kernelwright.agent.setup.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelwright.agent.archive import Archive


def leaderboard(
    workspace: options.Workspace = Path(),
    run: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Only this run: its id, a unique prefix, or `last`.",
            autocompletion=completion.runs,
        ),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="RUN_A RUN_B",
            help="Compare two runs problem by problem: what got better, worse, solved, lost.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page that needs nothing else.", show_default=False),
    ] = None,
    json: options.Json = False,
    csv: Annotated[bool, typer.Option("--csv", metavar="", help="Print comma-separated values.")] = False,
) -> None:
    """Rank models, strategies and backends over every attempt in a workspace, or compare two of its runs.

    With --html, --compare names the runs that the page shows side by side first.
    """
    given = {"--json": json, "--csv": csv, "--html": html is not None}
    named = [name for name, is_given in given.items() if is_given]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} exclude each other")
    if compare is not None and (csv or run is not None):
        raise UsageError(f"--compare and {'--csv' if csv else '--run'} exclude each other")
    from kernelwright.agent.workspace import Workspace

    if not workspace.is_dir():
        raise UsageError(f"there is no workspace {workspace}; --workspace names a folder with runs/")
    archive = Workspace(workspace).archive(say_once())
    if html is not None:
        _write_page(archive, html, run, compare)
    elif compare is not None:
        _compare(archive, compare, json=json)
    else:
        _rank(archive, find_run(archive, run) if run is not None else None, json=json, csv=csv)


def _rank(archive: Archive, run: str | None, *, json: bool, csv: bool) -> None:
    from kernelwright.agent.cli.terminal.console import out
    from kernelwright.agent.leaderboard import board, render, to_csv, to_json

    standing = board(archive.attempts(run))
    if json:
        print(to_json(standing))
    elif csv:
        print(to_csv(standing), end="")
    elif standing.entries:
        out().print(render(standing))
    elif standing.unjudged:
        _print_waiting(archive, [run] if run is not None else archive.runs())
    else:
        out().print(f"no attempts below {archive.folder.resolve()}; `kernelwright run` makes some")


def _print_waiting(archive: Archive, runs: Sequence[str]) -> None:
    from kernelwright.agent.cli.terminal.console import out

    for run in runs:
        count = sum(attempt.evaluation is None for attempt in archive.attempts(run))
        if count:
            goes_on = f"kernelwright run --resume {run} --workspace {quote(str(archive.folder.parent))}"
            out().print(f"{count} replies wait to be evaluated: {goes_on}", soft_wrap=True)


def _compare(archive: Archive, runs: tuple[str, str], *, json: bool) -> None:
    from itertools import chain

    from kernelwright.agent.cli.terminal.console import out
    from kernelwright.agent.leaderboard import compare_runs, render_comparison
    from kernelwright.agent.leaderboard.baselines import share_baselines
    from kernelwright.agent.leaderboard.rows import read_rows
    from kernelwright.agent.records.strict_json import strict_json

    before, after = _two_runs(archive, runs)
    rows = read_rows(chain(archive.attempts(before), archive.attempts(after)))
    compared = compare_runs(
        rows.judged, before, after, same_baselines=share_baselines(archive, before, after)
    )
    if json:
        print(strict_json(compared, indent=2))
    else:
        out().print(render_comparison(compared))


def _write_page(archive: Archive, file: Path, run: str | None, compare: tuple[str, str] | None) -> None:
    from kernelwright.agent.cli.terminal.console import out
    from kernelwright.agent.leaderboard.html import write_pages

    if file.is_dir():
        raise UsageError(f"--html {file} is a folder; name a file, such as {file / 'leaderboard.html'}")
    if not file.resolve().parent.is_dir():
        raise UsageError(f"--html {file}: there is no folder {file.resolve().parent}; make it first")
    written = write_pages(
        archive,
        file,
        run=find_run(archive, run) if run is not None else None,
        compare=_two_runs(archive, compare) if compare is not None else None,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    for number, path in enumerate(written.files):
        size = path.stat().st_size / 1024
        note = f", {written.attempts:,} attempts" if number == 0 else ""
        out().print(f"wrote    {path} ({size:,.0f} KiB{note})", soft_wrap=True)
    if written.unreadable:
        out().print(f"{written.unreadable:,} texts are missing or damaged below {archive.folder}")
    if written.texts_left_out:
        out().print(f"{written.texts_left_out:,} texts had no room; the page says where each lies")


def _two_runs(archive: Archive, names: tuple[str, str]) -> tuple[str, str]:
    before, after = (find_run(archive, name) for name in names)
    if before == after:
        raise UsageError(f"--compare: {names[0]!r} and {names[1]!r} are the same run, {before}")
    return before, after
