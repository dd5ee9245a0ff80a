"""`kernelwright package`: kept kernels as a small installable package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.failures import Usage


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
    from kernelwright.agent.cli.terminal.console import out as console
    from kernelwright.agent.interop.package_writer import UnusablePackage, Wanted, write_package
    from kernelwright.agent.setup.reference_lookup import find_references
    from kernelwright.agent.workspace import Workspace

    place = Workspace(workspace)
    chosen = [place.kernel(kernel) for kernel in kernels]
    references = find_references(place.archive(), chosen, problems or ["all"])
    try:
        names = write_package(chosen, references, Wanted(name=name), out)
    except UnusablePackage as error:
        raise Usage(str(error)) from None
    for made in names:
        console().print(f"kernel   {made}")
    console().print(f"package  {out.resolve()}", soft_wrap=True)
