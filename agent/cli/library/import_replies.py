"""`kernelwright import`: replies made elsewhere become attempts like any other."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.failures import did_pass


def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(help="Reply files, chat completions as JSON or JSON Lines, KernelBench run folders."),
    ],
    problem: Annotated[
        list[str] | None,
        typer.Option(
            "--problem",
            "-p",
            help="Where the problems are: files, folders or ids. One problem takes every reply.",
            show_default="all of ours",
        ),
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", "-b", help="How they are written.", show_default="guessed")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Who wrote those that do not say.")
    ] = None,
    license: Annotated[str | None, typer.Option(help="Licence of what they wrote.")] = None,
    evaluate: Annotated[bool, typer.Option("--evaluate", help="Judge them now.")] = False,
    device: options.Device = None,
    backward: options.Backward = None,
    shapes: options.Shapes = None,
    dtype: options.CastTo = None,
    math: options.Precision = None,
    baselines: options.Baselines = None,
    sandbox: options.Sandbox = None,
    sanitize: options.Sanitizing = None,
    time: options.Time = None,
    limit: options.Limit = None,
    plain_build: options.PlainBuild = None,
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Take in replies made elsewhere as a run of their own.

    A reply's problem is found by the name its file gives; a doubtful match is said, an unmatched reply is
    kept and cannot be judged. Numbers name problems only where --problem says which collection they are of.
    What holds no reply (a request that failed, a damaged line) is left out and said. Exit status 1 means
    that nothing passed (with --evaluate) or held code.
    """
    from kernelwright.agent.cli.library.import_job import ImportJob, print_rows, take_in
    from kernelwright.agent.setup.session import Session, Shown

    config = options.evaluation_config(
        options.policy(
            device=device,
            shapes=shapes,
            dtype=dtype,
            math=math,
            baselines=baselines,
            sandbox=sandbox,
            sanitize=sanitize,
            time=time,
            limit=limit,
            backward=backward,
        )
    )
    builds = plain_build is not False
    intake = ImportJob(problem or (), backend, model, license, config, evaluate, plain_build=builds)
    session = Session(workspace, cache, record=None, shown=Shown.QUIET if json else Shown.LIVE)
    rows = take_in(intake, files, session)
    if json:
        print(json_module.dumps([row.summary() for row in rows], indent=2))
    else:
        print_rows(rows, session)
    raise did_pass(any(row.is_good(judged=evaluate) for row in rows))
