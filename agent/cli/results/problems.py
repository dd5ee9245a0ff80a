"""`kernelwright problems`: reference problems, listed, shown, checked and measured."""

from __future__ import annotations

import re

import typer

import kernelwright as kw
from kernelwright.agent.cli.evaluation.check import check
from kernelwright.agent.cli.results.headroom import headroom
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.console import print_json, print_source, print_table

app = typer.Typer(no_args_is_help=True, help="List, show, check and measure reference problems.")


@app.command("list")
def list_problems(names: options.Problems = None, json: options.Json = False) -> None:
    """List problems with their named shapes."""
    from kernelwright.agent.setup.problem_lookup import read_problems

    problems = sorted(read_problems(names or ["all"]), key=_natural)
    if json:
        print_json([_summary(problem) for problem in problems])
        return
    rows = [(problem.id, ", ".join(problem.shapes) or "-", _about(problem)) for problem in problems]
    print_table("problem shapes about", rows)


@app.command("show")
def show_problem(problem: options.Problem, json: options.Json = False) -> None:
    """Print one problem's source."""
    from kernelwright.agent.setup.problem_lookup import one_problem

    found = one_problem(problem)
    if json:
        print_json(_summary(found) | {"source": found.source})
    else:
        print_source(found.source)


app.command("check")(check)
app.command("headroom")(headroom)


def _natural(problem: kw.Problem) -> list[tuple[int, str]]:
    # 2_relu comes before 10_gelu.
    return [(int(digits or 0), text) for digits, text in re.findall(r"(\d*)(\D*)", problem.id)]


def _summary(problem: kw.Problem) -> dict[str, object]:
    return {"id": problem.id, "sha": problem.sha, "shapes": problem.shapes, "about": _about(problem)}


def _about(problem: kw.Problem) -> str:
    import ast

    from kernelwright.evaluator import parse_python

    text = ast.get_docstring(parse_python(problem.source)) or ""
    return text.partition("\n")[0]
