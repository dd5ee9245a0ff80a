"""`kernelwright verify`: saved kernels evaluated again, and whether their scores hold."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.console import is_watched, notes, out, plain, print_table
from kernelwright.agent.cli.terminal.failures import ExitCode, did_pass, say, say_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernelwright.agent.archive.reproduction import Reproduction
    from kernelwright.agent.workspace import Kernel, Workspace
    from kernelwright.evaluator import Evaluator, Problem


def verify(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KERNEL...",
            help="Kernel ids, or unique prefixes of them. Default: every saved kernel.",
            autocompletion=completion.kernels,
        ),
    ] = None,
    workspace: options.Workspace = Path(),
    problem: options.ProblemNames = None,
    keep: Annotated[
        bool, typer.Option("--keep", metavar="", help="Add the new scores to the kernels' score logs.")
    ] = False,
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Evaluate saved kernels again on this machine, each under the policy of its best score.

    Each is reproduced, different, damaged, or not comparable (other hardware, no such device, a changed
    problem). References come from --problem and from the runs that made the kernels. Exit status 1 means
    that at least one is different or damaged, 3 that none could be evaluated.
    """
    from kernelwright.agent.setup.problem_lookup import find_references
    from kernelwright.agent.workspace import Workspace
    from kernelwright.evaluator import Evaluator

    place = Workspace(workspace)
    chosen, comparisons = _chosen(place, kernels)
    references = find_references(place.archive(say_once()), chosen, problem or ["all"])
    try:
        with Evaluator(cache=cache) as evaluator:
            for number, kernel in enumerate(chosen, 1):
                if is_watched():
                    place_of = f"{number}/{len(chosen)}  {kernel.id}  {plain(kernel.record.problem)}"
                    notes().print(place_of, style="dim")
                comparison = _evaluate_again(kernel, references, evaluator)
                comparisons.append(comparison)
                if keep and comparison.after is not None and comparison.after.status == "PASSED":
                    place.keep(kernel.source, comparison.after, kernel.record.provenance)
    finally:  # an interrupt loses nothing that was measured
        if json:
            print(json_module.dumps([entry.model_dump(mode="json") for entry in comparisons], indent=2))
        else:
            _print(comparisons, workspace)
    raise _exit(comparisons)


def _chosen(place: Workspace, names: Sequence[str] | None) -> tuple[list[Kernel], list[Reproduction]]:
    """The kernels to evaluate, and reports of those that are damaged."""
    from kernelwright.agent.archive import ArchiveError
    from kernelwright.agent.archive.reproduction import damaged
    from kernelwright.agent.workspace import UnknownKernel

    found: list[Kernel] = []
    broken: list[Reproduction] = []
    if not names:
        found += place.kernels(
            lambda folder, error: broken.append(damaged(folder.name, str(error), folder.parent.name))
        )
    for name in names or ():
        try:
            found.append(place.kernel(name))
        except UnknownKernel:
            raise
        except ArchiveError as error:
            broken.append(damaged(name, str(error)))
    return found, broken


def _exit(comparisons: Sequence[Reproduction]) -> typer.Exit:
    from kernelwright.agent.archive.reproduction import ReproductionOutcome

    if any(
        entry.outcome in (ReproductionOutcome.DIFFERENT, ReproductionOutcome.DAMAGED) for entry in comparisons
    ):
        return did_pass(False)
    if comparisons and not any(entry.after for entry in comparisons):
        say(f"0 of {len(comparisons)} could be evaluated here")
        return typer.Exit(ExitCode.MACHINE)
    return did_pass(True)


def _evaluate_again(kernel: Kernel, references: Mapping[str, Problem], evaluator: Evaluator) -> Reproduction:
    from kernelwright.agent.archive.reproduction import compare, not_comparable
    from kernelwright.evaluator import Candidate, ConfigError, MachineError, ProblemError

    before, record = kernel.best, kernel.record
    problem = references.get(record.problem_sha)
    if problem is None:
        is_known = any(known.id == record.problem for known in references.values())
        why = "the problem's source has changed since" if is_known else f"nobody has {record.problem} here"
        return not_comparable(kernel.id, before, f"{why}; name its file with --problem")
    candidate = Candidate(source=kernel.source, backend=record.backend)
    try:
        # One reference may have several names; the kernel stays under its own.
        named = problem.model_copy(update={"id": record.problem})
        after = evaluator.evaluate(named, candidate, before.config)
    except (MachineError, ConfigError, ProblemError) as error:
        return not_comparable(kernel.id, before, str(error))
    return compare(kernel.id, before, after)


def _print(comparisons: list[Reproduction], workspace: Path) -> None:
    if not comparisons:
        out().print(f"no kernels below {workspace.resolve() / 'generated'}")
        return
    colours = {"reproduced": "green", "not comparable": "yellow"}
    rows = [(entry.kernel, entry.problem, entry.outcome, entry.why) for entry in comparisons]
    print_table(
        "kernel problem outcome why", rows, [colours.get(entry.outcome, "red") for entry in comparisons]
    )
