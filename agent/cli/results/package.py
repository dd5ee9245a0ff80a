"""`kernelwright package`: saved kernels as a small installable package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.agent.cli.results.kernels import KernelNames
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.setup.usage_error import UsageError


def package(
    kernels: KernelNames,
    out: options.Out,
    name: Annotated[str, typer.Option(help="Name of the package.")] = "kept-kernels",
    workspace: options.Workspace = Path(),
    problem: options.ProblemNames = None,
) -> None:
    """Write an installable package of kernels: source, reference, score and a test for each."""
    from kernelwright.agent.cli.terminal.console import out as console
    from kernelwright.agent.interop.package_writer import PackageName, UnusablePackage, write_package
    from kernelwright.agent.setup.problem_lookup import find_references
    from kernelwright.agent.workspace import Workspace

    place = Workspace(workspace)
    chosen = [place.kernel(kernel) for kernel in kernels]
    references = find_references(place.archive(), chosen, problem or ["all"])
    try:
        names = write_package(chosen, references, PackageName(name=name), out)
    except UnusablePackage as error:
        raise UsageError(str(error)) from None
    for made in names:
        console().print(f"kernel   {made}")
    console().print(f"package  {out.resolve()}", soft_wrap=True)
