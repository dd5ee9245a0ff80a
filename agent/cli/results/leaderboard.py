"""`kernelwright leaderboard`: standings of models, strategies and backends, and comparisons of runs."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import kernelwright as kw
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.console import out, print_json
from kernelwright.agent.cli.terminal.failures import say_once
from kernelwright.agent.setup.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelwright.agent.leaderboard.run_comparison import MeasureAgain
    from kernelwright.agent.records.attempt_view import AttemptView


def leaderboard(
    workspace: options.Workspace = Path(),
    run: options.RunFilter = None,
    compare: Annotated[
        tuple[str, str] | None,
        options.option(
            "Compare two runs problem by problem: what got better, worse, solved, lost.",
            metavar="RUN_A RUN_B",
        ),
    ] = None,
    all_attempts: Annotated[
        bool,
        options.flag(
            "With --compare, the best of all attempts. Default: of equally many in both runs.",
            "--all-attempts",
        ),
    ] = False,
    again: Annotated[
        bool,
        options.flag("With --compare, measure kernels again, here, before one is called better.", "--again"),
    ] = False,
    html: Annotated[
        Path | None, options.option("Write a page that needs nothing else.", metavar="FILE")
    ] = None,
    json: options.Json = False,
    csv: Annotated[bool, options.flag("Print comma-separated values.", "--csv")] = False,
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
    if compare is None and (again or all_attempts):
        raise UsageError(f"{'--again' if again else '--all-attempts'} needs --compare RUN_A RUN_B")
    if not workspace.is_dir():
        raise UsageError(f"there is no workspace {workspace}; --workspace names a folder with runs/")
    archive = kw.Workspace(workspace).archive(say_once())
    if html is not None:
        _write_page(archive, html, run, compare)
    elif compare is not None:
        _compare(archive, compare, json=json, all_attempts=all_attempts, again=again)
    else:
        _rank(archive, archive.find(run) if run is not None else None, json=json, csv=csv)


def _rank(archive: kw.Archive, run: str | None, *, json: bool, csv: bool) -> None:
    from kernelwright.agent.leaderboard import render, to_csv

    standing = kw.board(archive.attempts(run))
    if json:
        print_json(standing)
    elif csv:
        print(to_csv(standing), end="")
    elif standing.entries:
        out().print(render(standing))
    elif standing.unjudged:
        _print_waiting(archive, [run] if run is not None else archive.runs())
    else:
        out().print(f"no attempts below {archive.folder.resolve()}; `kernelwright run` makes some")


def _print_waiting(archive: kw.Archive, runs: Sequence[str]) -> None:
    for run in runs:
        count = sum(attempt.evaluation is None for attempt in archive.attempts(run))
        if count:
            goes_on = f"kernelwright run --resume {run} --workspace {quote(str(archive.folder.parent))}"
            out().print(f"{count} replies wait to be evaluated: {goes_on}", soft_wrap=True)


def _compare(
    archive: kw.Archive, runs: tuple[str, str], *, json: bool, all_attempts: bool, again: bool
) -> None:
    from kernelwright.agent.leaderboard import compare_runs, render_comparison
    from kernelwright.agent.leaderboard.rows import read_rows

    pair = _two_runs(archive, runs)
    rows = read_rows(attempt for run in pair for attempt in archive.attempts(run)).evaluated
    with kw.Evaluator() if again else nullcontext() as evaluator:
        measurer = _measurer(archive, evaluator) if evaluator else None
        compared = compare_runs(rows, *pair, equal_attempts=not all_attempts, again=measurer)
    if json:
        print_json(compared)
    else:
        out().print(render_comparison(compared))


def _measurer(archive: kw.Archive, evaluator: kw.Evaluator) -> MeasureAgain:
    """Evaluates an attempt's kernel on the terms of its score."""
    from kernelwright.agent.records.score_policy import exclusion_reason, policy_of

    def again(row: AttemptView) -> AttemptView:
        attempt = next((one for one in archive.attempts(row.run) if one.id == row.attempt), None)
        before = archive.evaluation(attempt) if attempt else None
        source = archive.code(attempt) if attempt else None
        if before is None or source is None:
            raise kw.ArchiveError(f"attempt {row.attempt} of run {row.run} is not whole")
        candidate = kw.Candidate(source=source, backend=row.backend)
        config = kw.EvaluationConfig().on_terms_of(before.config)
        after = evaluator.evaluate(archive.problems(row.run)[row.problem], candidate, config)
        measured = None if after.status != "PASSED" else after.measurement
        return replace(
            row,
            status=after.status,
            policy=policy_of(after),
            unfit=exclusion_reason(after),
            speedup=measured.speedup if measured else None,
            low=measured.interval.low if measured else None,
            high=measured.interval.high if measured else None,
        )

    return again


def _write_page(archive: kw.Archive, file: Path, run: str | None, compare: tuple[str, str] | None) -> None:
    from kernelwright.agent.leaderboard.html import write_pages

    if file.is_dir():
        raise UsageError(f"--html {file} is a folder; name a file, such as {file / 'leaderboard.html'}")
    if not file.resolve().parent.is_dir():
        raise UsageError(f"--html {file}: there is no folder {file.resolve().parent}; make it first")
    written = write_pages(
        archive,
        file,
        run=archive.find(run) if run is not None else None,
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


def _two_runs(archive: kw.Archive, names: tuple[str, str]) -> tuple[str, str]:
    before, after = map(archive.find, names)
    if before == after:
        raise UsageError(f"--compare: {names[0]!r} and {names[1]!r} are the same run, {before}")
    return before, after
