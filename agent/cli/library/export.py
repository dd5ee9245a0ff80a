"""`kernelwright export`: training data of everything that was tried."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.failures import Usage, did_pass, say_once

if TYPE_CHECKING:
    from kernelwright.agent.datasets import Exported, Exporter

CHOICE = "Which attempts"
SHAPE = "How they are written"
ALWAYS_HEEDED = frozenset({"format", "out", "workspace", "json"})
"""Options that no exporter's settings hold."""

Names = list[str] | None


def _formats() -> list[str]:
    from kernelwright.agent.datasets import exporter_names

    return exporter_names()


def export(
    context: typer.Context,
    format: Annotated[
        str,
        typer.Argument(
            help="The format: sft, preference, unpaired, rl, trajectories, attempts, kernelbench, "
            "flashinfer, or one that another package registers.",
            metavar="FORMAT",
            autocompletion=_formats,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write; new or empty.")],
    workspace: options.Workspace = Path(),
    run: Annotated[
        Names, typer.Option(help="A run, by an unmistakable prefix.", rich_help_panel=CHOICE)
    ] = None,
    problem: Annotated[
        Names,
        typer.Option("--problem", "-p", help="Problems whose id contains this.", rich_help_panel=CHOICE),
    ] = None,
    status: Annotated[Names, typer.Option(help="How they ended.", rich_help_panel=CHOICE)] = None,
    track: Annotated[
        Names, typer.Option(help="Whose kernels did the work: own, mixed, library.", rich_help_panel=CHOICE)
    ] = None,
    min_speedup: Annotated[
        float | None, typer.Option(help="Least speedup of what passed.", rich_help_panel=CHOICE)
    ] = None,
    hardware: Annotated[
        Names, typer.Option(help="Devices whose name contains this.", rich_help_panel=CHOICE)
    ] = None,
    model: Annotated[
        Names, typer.Option("--model", "-m", help="Who wrote them.", rich_help_panel=CHOICE)
    ] = None,
    license: Annotated[Names, typer.Option(help="Their licence.", rich_help_panel=CHOICE)] = None,
    backend: Annotated[
        Names, typer.Option("--backend", "-b", help="How they are written.", rich_help_panel=CHOICE)
    ] = None,
    decontaminate: Annotated[
        list[Path] | None,
        typer.Option(
            help="Leave out problems that are in this file or folder, or nearly.", rich_help_panel=CHOICE
        ),
    ] = None,
    dedup: Annotated[
        Literal["none", "exact", "near"], typer.Option(help="Repeats to leave out.", rich_help_panel=CHOICE)
    ] = "near",
    reasoning: Annotated[
        Literal["keep", "drop"],
        typer.Option(help="What becomes of models' thoughts.", rich_help_panel=SHAPE),
    ] = "drop",
    pair_by: Annotated[
        Literal["prompt", "problem"],
        typer.Option(help="What both answers of a pair must share.", rich_help_panel=SHAPE),
    ] = "prompt",
    pairs: Annotated[
        int, typer.Option(min=1, help="Most pairs of one problem.", rich_help_panel=SHAPE)
    ] = 100,
    test: Annotated[
        float, typer.Option(min=0, max=1, help="Share of problems to hold out.", rich_help_panel=SHAPE)
    ] = 0.1,
    seed: Annotated[int, typer.Option(help="Changes which are held out.", rich_help_panel=SHAPE)] = 0,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Write Parquet, too.", rich_help_panel=SHAPE)
    ] = False,
    json: options.Json = False,
) -> None:
    """Write attempts as training data, or whole runs in the layout of another project.

    The folder of a dataset loads with `datasets.load_dataset(DIR)`; its README.md says how it was made.
    kernelbench and flashinfer take whole runs, with no filter but --run. Options that name something may be
    repeated. Exit status 1 means that no attempt gave a row.
    """
    from kernelwright.agent.datasets import find_exporter
    from kernelwright.agent.workspace import Workspace
    from kernelwright.evaluator import find_backend

    exporter = find_exporter(format)
    archive = Workspace(workspace).archive(say_once())
    runs = [archive.find(name) for name in run or ()]
    filters = {
        "runs": runs,
        "problems": problem or (),
        "statuses": [name.upper() for name in status or ()],
        "tracks": [name.lower() for name in track or ()],
        "min_speedup": min_speedup,
        "hardware": hardware or (),
        "models": model or (),
        "licenses": license or (),
        "backends": [find_backend(name).name for name in backend or ()],
    }
    given = {
        "runs": runs,
        "filters": filters,
        "reasoning": reasoning,
        "dedup": dedup,
        "pairing": pair_by,
        "pairs": pairs,
        "test": test,
        "seed": seed,
        "parquet": parquet,
        "decontaminate": [str(path) for path in decontaminate or ()],
    }
    exported = exporter.write(archive, out, _settings(context, exporter, given))
    if json:
        print(json_module.dumps(_summary(exporter, exported), indent=2))
    else:
        _print(exported, test)
    raise did_pass(bool(exported.rows))


def _settings(context: typer.Context, exporter: Exporter, given: dict[str, object]) -> Any:
    """The settings of a format, in a type of its own; an option that it would ignore is refused."""
    from pydantic import ValidationError

    heeded = exporter.settings.model_fields.keys() & given.keys()
    if "filters" not in heeded:
        options_heeded = ALWAYS_HEEDED | {"run" if name == "runs" else name for name in heeded}
        ignored = [
            f"--{name.replace('_', '-')}"
            for name in context.params
            if name not in options_heeded
            and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
        ]
        if ignored:
            raise Usage(f"export {exporter.name} has no {', '.join(ignored)}; leave that out")
    try:
        return exporter.settings.model_validate({name: given[name] for name in heeded})
    except ValidationError as error:
        raise Usage(options.explain(error)) from None


def _summary(exporter: Exporter, exported: Exported) -> dict[str, object]:
    left_out = dict(exported.left_out)
    if "filters" not in exporter.settings.model_fields:
        return {"candidates": exported.used, "left_out": left_out}
    return {
        "folder": str(exported.folder.resolve()),
        "rows": [
            {"table": table, "split": split, "rows": count} for (table, split), count in exported.rows.items()
        ],
        "attempts": {"seen": exported.seen, "used": exported.used, "left_out": left_out},
    }


def _print(exported: Exported, test: float) -> None:
    from kernelwright.agent.cli.terminal.console import out

    console = out()
    for (table, split), count in sorted(exported.rows.items()):
        console.print(f"{count:>8} rows  {table}, {split}" if split else f"{count:>8} {table}")
    splits = {split for _, split in exported.rows}
    if test > 0 and splits == {"train"}:
        console.print("       0 rows  in test: no problem fell there; raise --test, or change --seed")
    console.print(f"{exported.used:>8} of {exported.seen} attempts used")
    for reason, count in exported.left_out.most_common():
        console.print(f"{count:>8} not: {reason}", style="dim")
    if exported.hint:
        console.print(f"note     {exported.hint}", soft_wrap=True)
    if exported.folder.exists():
        console.print(f"data     {exported.folder.resolve()}", soft_wrap=True)
