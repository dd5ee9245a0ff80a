"""`kernelwright package`: kept kernels as a small installable package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli import options
from agent.cli.failures import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.archive import Archive
    from agent.workspace import Kernel
    from evaluator import Problem


def package(
    kernels: Annotated[list[str], typer.Argument(help="Kernel ids, or unmistakable beginnings.")],
    out: Annotated[Path, typer.Option(help="Folder to write; new or empty.")],
    name: Annotated[str, typer.Option(help="What the package is called.")] = "kept-kernels",
    workspace: options.Workspace = Path(),
    problems: Annotated[
        list[str] | None,
        typer.Option(
            "--problem",
            "-p",
            help="Where the references are: files, folders or ids; may be repeated.",
            show_default="all of ours, and those of the kernels' runs",
        ),
    ] = None,
) -> None:
    """Write an installable package of kernels: source, reference, score and a test for each."""
    from agent.cli.screen import out as console
    from agent.exchange.packaging import UnusablePackage, Wanted, write_package
    from agent.workspace import Workspace

    place = Workspace(workspace)
    chosen = [place.kernel(kernel) for kernel in kernels]
    references = _references(place.archive(), chosen, problems or ["all"])
    try:
        names = write_package(chosen, references, Wanted(name=name), out)
    except UnusablePackage as error:
        raise Usage(str(error)) from None
    for made in names:
        console().print(f"kernel   {made}")
    console().print(f"package  {out.resolve()}", soft_wrap=True)


def _references(archive: Archive, kernels: Sequence[Kernel], names: Sequence[str]) -> dict[str, Problem]:
    """Problems by the hash of their source: those named, and those that the kernels' runs used."""
    from agent.archive import ArchiveError
    from agent.cli.problem_files import read_problems

    found = {problem.sha: problem for problem in read_problems(names)}
    for kernel in kernels:
        run = kernel.record.provenance.run
        if kernel.record.problem_sha in found or run is None:
            continue
        try:
            found |= {problem.sha: problem for problem in archive.problems(run).values()}
        except (ArchiveError, OSError):
            # Runs are not tracked in git; a kernel outlives the run that made it.
            continue
    return found
