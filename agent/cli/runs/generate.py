"""`kernelwright generate`: samples are asked for, one by one or in bulk; a later process evaluates them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kernelwright as kw
from kernelwright.agent.cli.runs import run_options as shared
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.option_values import parse_seconds
from kernelwright.agent.setup.usage_error import UsageError

OTHERS = ("strategy", "options.turns", "options.enough", "seed", "plain_build", "evaluation.counters")
"""Settings of a run that mean nothing for independent samples."""
GENERATED = tuple(path for path in options.SETTINGS if path not in OTHERS)

Poll = Annotated[
    str, options.option("How often to look after batches.", panel=options.BULK, metavar="90s|10m")
]
Wait = Annotated[
    bool, options.flag("Stay until the replies are there.", "--wait/--no-wait", panel=options.BULK)
]
Evaluate = Annotated[bool, options.flag("Evaluate the replies once they are there.", "--evaluate")]


@options.with_settings(*GENERATED)
def generate(
    given: options.Given,
    problems: shared.Problems = None,
    record: shared.Record = None,
    poll: Poll = "60s",
    wait: Wait = True,
    evaluate: Evaluate = False,
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    config: shared.Config = None,
    assign: shared.Assignments = None,
    resume: shared.Resume = None,
    quiet: shared.Quiet = False,
    json_lines: shared.JsonLines = False,
) -> None:
    """Ask for independent samples of every problem, as a run; `run --resume` evaluates them later.

    With --batch-api what was asked survives everything: `generate --resume` collects it, days later.
    """
    from kernelwright.agent.cli.runs.run_summary import print_end
    from kernelwright.agent.setup.preparation import RunPlace
    from kernelwright.agent.setup.run_batch import ask_in_bulk, work_through
    from kernelwright.agent.strategies import Independent

    if resume is None:
        given = given.with_setting("strategy", "sample")
    settings = shared.read(given, problems, config, assign, resume)
    place = RunPlace(workspace, cache, record)
    poll_s = parse_seconds(poll)
    with shared.watching(quiet=quiet, json_lines=json_lines) as watch:
        work = shared.prepare_watched(place, settings, resume)
        if work.plan.strategy.independent is not Independent.ATTEMPT or work.plan.others:
            raise UsageError(
                f"generate asks for independent samples; resume this run by `run --resume {resume}`"
            )
        in_bulk = work.settings.batch_api
        summary = (
            ask_in_bulk(place, work, watch, poll_s=poll_s, waits=wait, evaluates=evaluate)
            if in_bulk
            else work_through(place, work, on_event=watch, asks=True, evaluates=evaluate)
        )
    if not json_lines:
        print_end(kw.Workspace(workspace), summary, bulk=in_bulk)
    raise typer.Exit(summary.exit_code)
