"""`kernelwright runs`: batches of attempts, listed, shown and removed."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

import kernelwright as kw
from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.console import line, out, plain, print_json, print_lines, print_table
from kernelwright.agent.cli.terminal.failures import say, say_once
from kernelwright.agent.setup.usage_error import UsageError

app = typer.Typer(no_args_is_help=True, help="List, show and remove runs.")

RunName = Annotated[
    str,
    options.argument("A run's id, a unique prefix of it, or `last`.", "RUN", autocompletion=completion.runs),
]
RunNames = Annotated[
    list[str], options.argument("Ids of runs, or unique prefixes.", "RUN...", autocompletion=completion.runs)
]
Yes = Annotated[bool, options.option("Remove without asking.", "--yes", "-y", metavar="")]


@app.command("list")
def list_runs(workspace: options.Workspace = Path(), json: options.Json = False) -> None:
    """List runs, oldest first."""
    archive = kw.Workspace(workspace).archive(say_once())
    runs = [summary for run in archive.runs() if (summary := _summary(archive, run))]
    if json:
        print_json(runs)
    elif not runs:
        out().print(f"no runs below {archive.folder.resolve()}; `kernelwright run` makes some")
    else:
        headings = "run began end models strategies backends >problems >replies >passed"
        names = headings.replace(">", "").split()
        print_table(headings, [[_text(run[name]) for name in names] for run in runs])


@app.command("show")
def show_run(run: RunName, workspace: options.Workspace = Path(), json: options.Json = False) -> None:
    """Show a run: its settings, how its attempts ended, what it cost, and the command that resumes it."""
    archive = kw.Workspace(workspace).archive(say_once())
    found = archive.find(run)
    summary = _summary(archive, found)
    if summary is None:
        raise kw.ArchiveError(f"the log of run {found} is damaged")
    settings = archive.text(found, archive.started(found).settings)
    if json:
        print_json({**summary, "settings": settings})
        return
    place = f"{found} --workspace {quote(str(workspace))}"
    told = {
        **{name: _text(value) for name, value in summary.items()},
        "attempts": f"kernelwright attempts list --run {place}",
        "resume": f"kernelwright run --resume {place}",
    }
    print_lines(told.items(), 11)
    if settings.strip():
        out().print(f"\n{plain(settings.strip())}")


@app.command("rm")
def remove_runs(runs: RunNames, workspace: options.Workspace = Path(), yes: Yes = False) -> None:
    """Remove runs: their logs, replies and evaluations. Saved kernels stay, without their conversations."""
    from kernelwright.agent.archive.log import LogFile

    archive = kw.Workspace(workspace).archive(lambda _: None)
    for run in dict.fromkeys(map(archive.find, runs)):
        if confirm(f"run {run}", archive.folder / run, yes):
            LogFile(archive.log_path(run)).close()  # refuses a run that another process works on
            shutil.rmtree(archive.folder / run)
            say(f"removed run {run}")


def confirm(what: str, folder: Path, yes: bool) -> bool:
    """Ask before a folder is removed; without a terminal nothing is removed unless `--yes` says so."""
    if yes:
        return True
    try:
        return typer.confirm(f"remove {line(what)}, {megabytes(folder_bytes(folder))}?", err=True)
    except typer.Abort:
        raise UsageError("nothing is removed without an answer; --yes removes without asking") from None


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def megabytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1e6:,.1f} MB"


def _summary(archive: kw.Archive, run: str) -> dict[str, object] | None:
    from kernelwright.agent.records.attempt_log import RunFinished, RunStarted
    from kernelwright.agent.runner import read_plan

    try:
        plan = read_plan(archive, run)
        lines = [line for line in archive.lines(run) if isinstance(line, (RunStarted, RunFinished))]
        attempts = list(archive.attempts(run))
    except kw.ArchiveError as error:
        say(f"left out: run {run}: {error}")
        return None
    costs = [attempt.completion.cost_usd for attempt in attempts]
    usages = [attempt.completion.usage for attempt in attempts]
    return {
        "run": run,
        "began": lines[0].at[:16].replace("T", " "),
        "end": lines[-1].end if isinstance(lines[-1], RunFinished) else "not finished",
        "models": [model.name for model in plan.models],
        "strategies": [one.name for one in (plan.strategy, *plan.others)],
        "backends": list(plan.backends),
        "problems": len(plan.problems),
        "replies": len(attempts),
        "passed": sum(attempt.passed for attempt in attempts),
        "statuses": Counter(str(attempt.status or "not evaluated") for attempt in attempts),
        "tokens": sum(usage.prompt_tokens + usage.completion_tokens for usage in usages),
        "cost_usd": sum(cost or 0.0 for cost in costs),
        "unpriced": sum(cost is None for cost in costs),
        "folder": str((archive.folder / run).resolve()),
    }


def _text(value: object) -> str:
    match value:
        case str():
            return value
        case Mapping():
            return ", ".join(f"{key} {count}" for key, count in sorted(value.items()))
        case Sequence():
            return ", ".join(map(str, value))
        case float():
            return f"{value:.4f}"
        case _:
            return str(value)
