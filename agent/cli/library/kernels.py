"""`kernelwright kernels` and `kernelwright show`: what was kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.failures import say, say_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernelwright.agent.workspace import Kernel

app = typer.Typer(no_args_is_help=True, help="List and show kept kernels.")

KernelName = Annotated[str, typer.Argument(help="A kernel's id, or an unmistakable beginning of it.")]


@app.command("list")
def list_kernels(
    workspace: options.Workspace = Path(),
    problem: Annotated[
        str | None, typer.Option(help="Only kernels of problems whose id contains this.")
    ] = None,
    json: options.Json = False,
) -> None:
    """List kept kernels, fastest first within a problem."""
    from rich.table import Table

    from kernelwright.agent.cli.terminal.console import milliseconds, out, plain
    from kernelwright.agent.workspace import Workspace

    kernels = [
        kernel
        for kernel in Workspace(workspace).kernels(lambda _, error: say(f"left out: {error}"))
        if problem is None or problem in kernel.record.problem
    ]
    kernels.sort(key=lambda kernel: (kernel.record.problem, -(kernel.best.speedup or 0.0)))
    if json:
        from kernelwright.agent.records.strict_json import strict_json

        print(strict_json([_summary(kernel) for kernel in kernels], indent=2))
        return
    if not kernels:
        out().print(f"no kernels below {workspace.resolve() / 'generated'}")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("kernel", "problem", "backend", "speedup", "time", "measured on", "by"):
        table.add_column(heading, justify="right" if heading in ("speedup", "time") else "left")
    for kernel in kernels:
        best = kernel.best
        table.add_row(
            kernel.id,
            plain(kernel.record.problem),
            plain(kernel.record.backend),
            f"{best.speedup:.2f}×" if best.speedup is not None else "-",
            milliseconds(best.measurement.candidate.median_ms) if best.measurement else "-",
            plain(best.environment.device_name) if best.environment else "-",
            plain(kernel.record.provenance.model or "-"),
        )
    out().print(table)


@app.command("show")
def show(kernel: KernelName, workspace: options.Workspace = Path(), json: options.Json = False) -> None:
    """Show a kept kernel: its source, its score, where it came from and what was said to make it."""
    from kernelwright.agent.archive import ArchiveError
    from kernelwright.agent.cli.library.conversation import read_conversation
    from kernelwright.agent.workspace import Workspace

    place = Workspace(workspace)
    kept = place.kernel(kernel)
    try:
        said, trouble = read_conversation(place.archive(say_once()), kept.record.provenance), ""
    except ArchiveError as error:
        said, trouble = None, str(error)
    if json:
        from kernelwright.agent.records.strict_json import strict_json

        record = kept.record.model_dump(mode="json")
        whole = {"source": kept.source, "record": record, "conversation": said}
        print(strict_json(_summary(kept) | whole, indent=2))
        return
    _print_kernel(kept)
    _print_conversation(said, trouble)


def _print_kernel(kept: Kernel) -> None:
    from rich.syntax import Syntax

    from kernelwright.agent.cli.judging.evaluation_card import card
    from kernelwright.agent.cli.terminal.console import out, plain

    console = out()
    if console.is_terminal:
        console.print(Syntax(plain(kept.source), "python", background_color="default"))
    else:
        print(kept.source, end="" if kept.source.endswith("\n") else "\n")
    console.print(card(kept.best))
    origin = kept.record.provenance.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    told = ", ".join(f"{name} {plain(str(value))}" for name, value in origin.items())
    console.print(f"from   {told}")
    console.print(f"lies   {kept.folder}")


def _print_conversation(said: Sequence[Mapping[str, str]] | None, trouble: str) -> None:
    from rich.text import Text

    from kernelwright.agent.cli.terminal.console import out, plain

    console = out()
    if said is None:
        console.print(f"said   nothing that could be shown: {plain(trouble)}", soft_wrap=True)
        return
    for message in said:
        role = message["role"]
        for title, text in ((f"{role}, thinking", message.get("reasoning")), (role, message["content"])):
            if text:
                console.print(Text(f"\n--- {title}", style="bold"))
                console.print(Text(plain(text)), soft_wrap=True)


def _summary(kernel: Kernel) -> dict[str, object]:
    best = kernel.best
    return {
        "kernel": kernel.id,
        "problem": kernel.record.problem,
        "backend": kernel.record.backend,
        "speedup": best.speedup,
        "scores": len(kernel.record.scores),
        "device": best.environment.device_name if best.environment else None,
        "folder": str(kernel.folder),
    }
