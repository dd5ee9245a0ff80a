"""`kernelwright verify`: judge kept kernels again and say whether their scores hold."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli import options
from agent.cli.failures import did_pass

if TYPE_CHECKING:
    from agent.reproduction import Comparison
    from agent.workspace import Kernel
    from evaluator import Evaluator, Problem


def verify(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(help="Kernel ids, or unmistakable beginnings.", show_default="every kept kernel"),
    ] = None,
    workspace: options.Workspace = Path(),
    problems: Annotated[
        list[str] | None,
        typer.Option(
            "--problem", "-p", help="Where the problems are: files, folders or ids; may be repeated."
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Add the new scores to the kernels' score logs.")
    ] = False,
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Judge kept kernels again on this machine, each under the policy of its best score.

    Each is reproduced, different, or not comparable (other hardware, no such device, a changed problem).
    Exit status 1 means that at least one is different.
    """
    from agent.cli.problem_files import read_problems
    from agent.cli.screen import is_watched, notes
    from agent.reproduction import Outcome
    from agent.workspace import Workspace
    from evaluator import Evaluator

    place = Workspace(workspace)
    chosen = [place.kernel(name) for name in kernels] if kernels else list(place.kernels())
    known = {problem.id: problem for problem in read_problems(problems or ["all"])}
    comparisons = []
    with Evaluator(cache=cache) as evaluator:
        for number, kernel in enumerate(chosen, 1):
            if is_watched():
                notes().print(f"{number}/{len(chosen)}  {kernel.id}  {kernel.record.problem}", style="dim")
            comparison = _judge_again(kernel, known, evaluator)
            comparisons.append(comparison)
            if keep and comparison.after is not None and comparison.after.status == "PASSED":
                place.keep(kernel.source, comparison.after, kernel.record.provenance)
    if json:
        print(json_module.dumps([entry.model_dump(mode="json") for entry in comparisons], indent=2))
    else:
        _print(comparisons, workspace)
    raise did_pass(all(entry.outcome is not Outcome.DIFFERENT for entry in comparisons))


def _judge_again(kernel: Kernel, known: Mapping[str, Problem], evaluator: Evaluator) -> Comparison:
    from agent.reproduction import compare, not_comparable
    from evaluator import Candidate, ConfigError, MachineError

    before = kernel.best
    problem = known.get(kernel.record.problem)
    if problem is None:
        return not_comparable(kernel.id, before, f"no problem called {kernel.record.problem} here")
    if problem.sha != kernel.record.problem_sha:
        return not_comparable(kernel.id, before, "the problem's source has changed since")
    candidate = Candidate(source=kernel.source, backend=kernel.record.backend)
    try:
        return compare(kernel.id, before, evaluator.evaluate(problem, candidate, before.config))
    except (MachineError, ConfigError) as error:
        return not_comparable(kernel.id, before, str(error))


def _print(comparisons: list[Comparison], workspace: Path) -> None:
    from rich.table import Table

    from agent.cli.screen import out, plain

    if not comparisons:
        out().print(f"no kernels below {workspace.resolve() / 'generated'}")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("kernel", "problem", "outcome", "why"):
        table.add_column(heading, overflow="fold")
    colours = {"reproduced": "green", "different": "red", "not comparable": "yellow"}
    for entry in comparisons:
        table.add_row(
            entry.kernel, entry.problem, entry.outcome, plain(entry.why), style=colours[entry.outcome]
        )
    out().print(table)
