"""`kernelwright package`: saved kernels as a small installable package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kernelwright as kw
from kernelwright.agent.cli.results.kernels import KernelNames
from kernelwright.agent.cli.terminal import options


def package(
    kernels: KernelNames,
    out: options.Out,
    name: Annotated[str, typer.Option(help="Name of the package.")] = "kept-kernels",
    workspace: options.Workspace = Path(),
    problem: options.ProblemNames = None,
) -> None:
    """Write an installable package of kernels: source, reference, score and a test for each."""
    from kernelwright.agent.cli.terminal.console import out as console
    from kernelwright.agent.interop.package_writer import write_package
    from kernelwright.agent.setup.problem_lookup import find_references

    place = kw.Workspace(workspace)
    chosen = [place.kernel(kernel) for kernel in kernels]
    references = find_references(place.archive(), chosen, problem or ["all"])
    for made in write_package(chosen, references, name, out):
        console().print(f"kernel   {made}")
    console().print(f"package  {out.resolve()}", soft_wrap=True)
