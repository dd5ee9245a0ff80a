"""`kernelwright export`: training data from attempts."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kernelwright.agent.cli.library.runs import find_run
from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.failures import did_pass, say_once
from kernelwright.agent.setup.usage_error import UsageError

if TYPE_CHECKING:
    from kernelwright.agent.datasets import Exported, Exporter

CHOICE = "Selection"
SHAPE = "Format"
ALWAYS_HEEDED = frozenset({"format", "out", "workspace", "json"})
"""Options that no exporter's settings hold."""

Names = list[str] | None

OPTIONS = MappingProxyType(
    {
        "filters.statuses": "--status",
        "filters.tracks": "--track",
        "filters.min_speedup": "--min-speedup",
        "pairing": "--pair-by",
        "test": "--test",
        "pairs": "--pairs",
    }
)
"""The options behind export settings, by their paths."""


def export(
    context: typer.Context,
    format: Annotated[
        str,
        typer.Argument(
            help="The format: sft, preference, unpaired, rl, trajectories, attempts, kernelbench, "
            "flashinfer, or one that another package registers.",
            metavar="FORMAT",
            autocompletion=completion.formats,
        ),
    ],
    out: options.Out,
    workspace: options.Workspace = Path(),
    run: Annotated[
        Names,
        typer.Option(
            metavar="RUN",
            help="Only this run: its id, a unique prefix, or `last`.",
            autocompletion=completion.runs,
            rich_help_panel=CHOICE,
        ),
    ] = None,
    problem: options.ProblemFilter = None,
    status: Annotated[
        Names, typer.Option(help="How attempts ended, such as PASSED.", rich_help_panel=CHOICE)
    ] = None,
    track: Annotated[
        Names, typer.Option(help="Kernels that did the work: own, mixed, library.", rich_help_panel=CHOICE)
    ] = None,
    min_speedup: Annotated[
        float | None, typer.Option(help="Least speedup of what passed.", rich_help_panel=CHOICE)
    ] = None,
    hardware: Annotated[
        Names, typer.Option(help="Devices whose name contains this.", rich_help_panel=CHOICE)
    ] = None,
    model: Annotated[
        Names, typer.Option("--model", "-m", help="Models that wrote them.", rich_help_panel=CHOICE)
    ] = None,
    license: Annotated[Names, typer.Option(help="Their licence.", rich_help_panel=CHOICE)] = None,
    backend: Annotated[
        Names, typer.Option("--backend", "-b", help="Backends they are written for.", rich_help_panel=CHOICE)
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
        typer.Option(help="Keep or drop models' thoughts.", rich_help_panel=SHAPE),
    ] = "drop",
    pair_by: Annotated[
        Literal["prompt", "problem"],
        typer.Option(
            help="Both answers of a pair share the prompt, or the problem only.", rich_help_panel=SHAPE
        ),
    ] = "prompt",
    pairs: Annotated[
        int, typer.Option(min=1, help="Most pairs of one problem.", rich_help_panel=SHAPE)
    ] = 100,
    test: Annotated[
        float, typer.Option(min=0, max=1, help="Share of problems to hold out.", rich_help_panel=SHAPE)
    ] = 0.1,
    seed: Annotated[
        int, typer.Option(help="Seed of the choice of problems that are held out.", rich_help_panel=SHAPE)
    ] = 0,
    parquet: Annotated[
        bool, typer.Option("--parquet", metavar="", help="Write Parquet, too.", rich_help_panel=SHAPE)
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
    runs = [find_run(archive, name) for name in run or ()]
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

    from kernelwright.agent.setup.setting_errors import explain

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
            raise UsageError(f"export {exporter.name} has no {', '.join(ignored)}; leave that out")
    try:
        return exporter.settings.model_validate({name: given[name] for name in heeded})
    except ValidationError as error:
        raise UsageError(explain(error, exporter.settings, names=OPTIONS)) from None


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
