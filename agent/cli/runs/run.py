"""`kernelwright run`: models are asked, replies evaluated, what passes is saved."""

from __future__ import annotations

from pathlib import Path

import typer

import kernelwright as kw
from kernelwright.agent.cli.runs import run_options as shared
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.setup.usage_error import UsageError


@options.with_settings(*options.RUN)
def run(
    given: options.Given,
    problems: shared.Problems = None,
    record: shared.Record = None,
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    config: shared.Config = None,
    assign: shared.Assignments = None,
    print_config: shared.PrintConfig = False,
    resume: shared.Resume = None,
    quiet: shared.Quiet = False,
    json_lines: shared.JsonLines = False,
) -> None:
    """Ask a model for kernels, evaluate every reply, save what passes, and print a leaderboard.

    Without a key and without a base URL recorded replies are replayed. Keys come from KERNELWRIGHT_API_KEY
    or OPENAI_API_KEY. Exit status 0 means that something passed, 1 that nothing did.
    """
    from kernelwright.agent.cli.runs.run_summary import print_end
    from kernelwright.agent.setup.preparation import RunPlace
    from kernelwright.agent.setup.run_batch import work_through
    from kernelwright.agent.setup.settings_toml import explained

    settings = shared.read(given, problems, config, assign, resume)
    if print_config:
        print(explained(settings), end="")
        raise typer.Exit
    place = RunPlace(workspace, cache, record)
    if settings.batch_api and resume is None:
        raise UsageError(
            "batch_api: `kernelwright generate` asks in bulk, `run --resume` evaluates what came"
        )
    with shared.watching(quiet=quiet, json_lines=json_lines) as watch:
        work = shared.prepare_watched(place, settings, resume)
        summary = work_through(place, work, on_event=watch)
    if not json_lines:
        print_end(kw.Workspace(workspace), summary, bulk=work.settings.batch_api)
    raise typer.Exit(summary.exit_code)
