"""`kernelwright leaderboard`: what every model, strategy and backend achieved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.cli import options
from agent.cli.failures import Usage


def leaderboard(
    workspace: options.Workspace = Path(),
    run: Annotated[
        str | None, typer.Option(help="Only this run, by an unmistakable prefix.", show_default="all runs")
    ] = None,
    json: options.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
) -> None:
    """Rank models, strategies and backends over every attempt in a workspace."""
    if json and csv:
        raise Usage("--json and --csv exclude each other")
    from agent.cli.screen import out
    from agent.leaderboard import board, render, to_csv, to_json
    from agent.workspace import Workspace

    archive = Workspace(workspace).archive()
    standing = board(archive.attempts(archive.find(run) if run is not None else None))
    if json:
        print(to_json(standing))
    elif csv:
        print(to_csv(standing), end="")
    elif not standing.entries:
        out().print(f"no attempts below {workspace.resolve() / 'runs'}; `kernelwright run` makes some")
    else:
        out().print(render(standing))
