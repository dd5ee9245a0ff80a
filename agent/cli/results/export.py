"""`kernelwright export`: training data from attempts."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kernelwright.agent.cli.results.runs import find_run
from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.failures import did_pass, say_once
from kernelwright.agent.cli.terminal.options import option
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


Format = Annotated[
    str,
    typer.Argument(
        help="The format: sft, preference, unpaired, rl, trajectories, attempts, kernelbench, "
        "flashinfer, or one that another package registers.",
        metavar="FORMAT",
        autocompletion=completion.formats,
    ),
]
Run = Annotated[
    Names,
    option(
        "Only this run: its id, a unique prefix, or `last`.",
        panel=CHOICE,
        metavar="RUN",
        autocompletion=completion.runs,
    ),
]
Status = Annotated[Names, option("How attempts ended, such as PASSED.", panel=CHOICE)]
Track = Annotated[Names, option("Kernels that did the work: own, mixed, library.", panel=CHOICE)]
Speedup = Annotated[float | None, option("Least speedup of what passed.", panel=CHOICE)]
Hardware = Annotated[Names, option("Devices whose name contains this.", panel=CHOICE)]
Model = Annotated[Names, option("Models that wrote them.", "--model", "-m", panel=CHOICE)]
License = Annotated[Names, option("Their licence.", panel=CHOICE)]
Backend = Annotated[Names, option("Backends they are written for.", "--backend", "-b", panel=CHOICE)]
Decontaminate = Annotated[
    list[Path] | None, option("Leave out problems that are in this file or folder, or nearly.", panel=CHOICE)
]
Dedup = Annotated[Literal["none", "exact", "near"], option("Repeats to leave out.", panel=CHOICE)]
Reasoning = Annotated[Literal["keep", "drop"], option("Keep or drop models' thoughts.", panel=SHAPE)]
PairBy = Annotated[
    Literal["prompt", "problem"],
    option("Both answers of a pair share the prompt, or the problem only.", panel=SHAPE),
]
Pairs = Annotated[int, option("Most pairs of one problem.", panel=SHAPE, min=1)]
Test = Annotated[float, option("Share of problems to hold out.", panel=SHAPE, min=0, max=1)]
Seed = Annotated[int, option("Seed of the choice of problems that are held out.", panel=SHAPE)]
Slower = Annotated[
    bool,
    option("Also passes slower than the baseline as examples.", "--slower", panel=CHOICE, metavar=""),
]
Parquet = Annotated[bool, option("Write Parquet, too.", "--parquet", panel=SHAPE, metavar="")]


def export(
    context: typer.Context,
    format: Format,
    out: options.Out,
    workspace: options.Workspace = Path(),
    run: Run = None,
    problem: options.ProblemFilter = None,
    status: Status = None,
    track: Track = None,
    min_speedup: Speedup = None,
    hardware: Hardware = None,
    model: Model = None,
    license: License = None,
    backend: Backend = None,
    decontaminate: Decontaminate = None,
    dedup: Dedup = "near",
    reasoning: Reasoning = "drop",
    pair_by: PairBy = "prompt",
    pairs: Pairs = 100,
    test: Test = 0.1,
    seed: Seed = 0,
    slower: Slower = False,
    parquet: Parquet = False,
    json: options.Json = False,
) -> None:
    """Write attempts as training data, or whole runs in the layout of another project.

    The folder of a dataset loads with `datasets.load_dataset(DIR)`; its README.md says how it was made.
    kernelbench and flashinfer take whole runs, with no filter but --run. Options that name something may be
    repeated. Exit status 1 means that no attempt gave a row.
    """
    from kernelwright.agent.datasets import find_exporter
    from kernelwright.agent.workspace import Workspace

    exporter = find_exporter(format)
    archive = Workspace(workspace).archive(say_once())
    given = _given(context.params, [find_run(archive, name) for name in run or ()])
    exported = exporter.write(archive, out, _settings(context, exporter, given))
    if json:
        print(json_module.dumps(_summary(exporter, exported), indent=2))
    else:
        _print(exported, test)
    raise did_pass(bool(exported.rows))


def _given(options: Mapping[str, Any], runs: list[str]) -> dict[str, object]:  # Any: as typer read them
    from kernelwright.evaluator import find_backend

    filters = {
        "runs": runs,
        "problems": options["problem"] or (),
        "statuses": [name.upper() for name in options["status"] or ()],
        "tracks": [name.lower() for name in options["track"] or ()],
        "min_speedup": options["min_speedup"],
        "hardware": options["hardware"] or (),
        "models": options["model"] or (),
        "licenses": options["license"] or (),
        "backends": [find_backend(name).name for name in options["backend"] or ()],
    }
    same = {
        name: options[name] for name in ("reasoning", "dedup", "pairs", "test", "seed", "slower", "parquet")
    }
    return {
        **same,
        "runs": runs,
        "filters": filters,
        "pairing": options["pair_by"],
        "decontaminate": [str(path) for path in options["decontaminate"] or ()],
    }


def _settings(context: typer.Context, exporter: Exporter, given: dict[str, object]) -> Any:
    """The settings of a format, in a type of its own; an option that it would ignore is refused."""
    from pydantic import ValidationError

    from kernelwright.agent.setup.usage_error import explain

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
