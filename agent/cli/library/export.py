"""`kernelwright export`: training data of everything that was tried."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.failures import Usage, did_pass, say_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernelwright.agent.archive import Archive
    from kernelwright.agent.datasets import Exported
    from kernelwright.agent.interop.handoff import Written

CHOICE = "Which attempts"
SHAPE = "How they are written"
HEEDED = frozenset({"format", "out", "workspace", "run", "json"})
"""What the formats that hand over whole runs take."""

Names = list[str] | None


def export(
    context: typer.Context,
    format: Annotated[
        Literal[
            "sft",
            "preference",
            "unpaired",
            "rl",
            "trajectories",
            "attempts",
            "kernelbench",
            "flashinfer",
        ],
        typer.Argument(help="What the data is for.", metavar="FORMAT"),
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
    """Write attempts as training data: sft, preference, unpaired, rl, trajectories or attempts.

    The folder loads with `datasets.load_dataset(DIR)`; its README.md says what is in it and how it was made.
    Two more formats hand runs to other projects whole, with no filter but --run: kernelbench (run folders
    and baseline timings) and flashinfer (flashinfer-bench's solutions and traces). Options that name
    something may be repeated. Exit status 1 means that no attempt gave a row.
    """
    from kernelwright.agent.workspace import Workspace
    from kernelwright.evaluator import find_backend

    archive = Workspace(workspace).archive(say_once())
    runs = [archive.find(name) for name in run or ()]
    if format in ("kernelbench", "flashinfer"):
        _refuse_what_is_ignored(context, format)
        written = _hand_over(archive, runs or archive.runs(), out, format)
        print(json_module.dumps(asdict(written), indent=2)) if json else _print_handed(written, out)
        raise did_pass(bool(written.candidates))
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
        "format": format,
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
    exported = _export(archive, out, given, workspace)
    if json:
        print(json_module.dumps(_summary(exported), indent=2))
    else:
        _print(exported, test)
    raise did_pass(bool(exported.rows))


def _export(archive: Archive, out: Path, given: Mapping[str, object], workspace: Path) -> Exported:
    from pydantic import ValidationError

    from kernelwright.agent.datasets import Settings, UnusableExport
    from kernelwright.agent.datasets import export as make

    try:
        return make(archive, out, Settings.model_validate(given), workspace=workspace)
    except ValidationError as error:
        raise Usage(options.explain(error)) from None
    except UnusableExport as error:
        raise Usage(str(error)) from None


def _refuse_what_is_ignored(context: typer.Context, format: str) -> None:
    given = [
        name
        for name in context.params
        if name not in HEEDED and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise Usage(f"export {format} hands over whole runs; choose them with --run and leave out {named}")


def _hand_over(archive: Archive, runs: Sequence[str], folder: Path, format: str) -> Written:
    from kernelwright.agent.datasets import UnusableExport
    from kernelwright.agent.interop.flashinfer import write_records
    from kernelwright.agent.interop.handoff import hand_over
    from kernelwright.agent.interop.kernelbench import write_runs

    try:
        return hand_over(archive, runs, folder, write_records if format == "flashinfer" else write_runs)
    except UnusableExport as error:
        raise Usage(str(error)) from None


def _print_handed(written: Written, folder: Path) -> None:
    from kernelwright.agent.cli.terminal.console import out

    console = out()
    console.print(f"{written.candidates:>8} candidates")
    for reason, count in written.left_out.items():
        console.print(f"{count:>8} not: {reason}", style="dim")
    if written.candidates:
        console.print(f"data     {folder.resolve()}", soft_wrap=True)


def _summary(exported: Exported) -> dict[str, object]:
    tally = exported.tally
    return {
        "folder": str(exported.folder.resolve()),
        "rows": [
            {"table": table, "split": split, "rows": count} for (table, split), count in exported.rows.items()
        ],
        "attempts": {"seen": tally.seen, "used": tally.used, "left_out": dict(tally.left_out)},
    }


def _print(exported: Exported, test: float) -> None:
    from kernelwright.agent.cli.terminal.console import out

    console, tally = out(), exported.tally
    for (table, split), count in sorted(exported.rows.items()):
        console.print(f"{count:>8} rows  {table}, {split}")
    if exported.rows and test > 0 and all(split != "test" for _, split in exported.rows):
        console.print("       0 rows  in test: no problem fell there; raise --test, or change --seed")
    console.print(f"{tally.used:>8} of {tally.seen} attempts used")
    for reason, count in tally.left_out.most_common():
        console.print(f"{count:>8} not: {reason}", style="dim")
    console.print(f"data     {exported.folder.resolve()}", soft_wrap=True)
