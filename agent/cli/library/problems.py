"""`kernelwright problems`: what there is to solve."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.agent.cli.judging.check import check
from kernelwright.agent.cli.terminal import options

if TYPE_CHECKING:
    from kernelwright.evaluator import Problem

app = typer.Typer(no_args_is_help=True, help="List, show and check reference problems.")
app.command("check")(check)


@app.command("list")
def list_problems(
    names: Annotated[
        list[str] | None, typer.Argument(help="Files, folders, ids or levels.", show_default="all of ours")
    ] = None,
    json: options.Json = False,
) -> None:
    """List problems with their named shapes."""
    from rich.table import Table

    from kernelwright.agent.cli.terminal.console import out
    from kernelwright.agent.setup.problem_lookup import read_problems

    problems = read_problems(names or ["all"])
    if json:
        print(json_module.dumps([_summary(problem) for problem in problems], indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("problem", "shapes", "about"):
        table.add_column(heading, no_wrap=heading != "about")
    for problem in problems:
        table.add_row(problem.id, ", ".join(problem.shapes) or "-", _about(problem))
    out().print(table)


@app.command("show")
def show_problem(
    problem: Annotated[str, typer.Argument(help="A file, an id, or an unmistakable part of one.")],
    json: options.Json = False,
) -> None:
    """Print one problem's source."""
    from rich.syntax import Syntax

    from kernelwright.agent.cli.terminal.console import out
    from kernelwright.agent.setup.problem_lookup import one_problem

    found = one_problem(problem)
    if json:
        print(json_module.dumps(_summary(found) | {"source": found.source}, indent=2))
        return
    console = out()
    if console.is_terminal:
        console.print(Syntax(found.source, "python", background_color="default"))
    else:
        print(found.source, end="")


def _summary(problem: Problem) -> dict[str, object]:
    return {"id": problem.id, "sha": problem.sha, "shapes": problem.shapes, "about": _about(problem)}


def _about(problem: Problem) -> str:
    import ast

    from kernelwright.evaluator import parse_python

    text = ast.get_docstring(parse_python(problem.source)) or ""
    return text.partition("\n")[0]
