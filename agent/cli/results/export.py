"""`kernelwright export`: training data from attempts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final

import kernelwright as kw
from kernelwright.agent.cli.terminal import completion, console, options
from kernelwright.agent.cli.terminal.failures import did_pass, say_once
from kernelwright.agent.cli.terminal.options import SettingOption
from kernelwright.agent.setup.usage_error import UsageError, validated

if TYPE_CHECKING:
    from kernelwright.agent.datasets import Exported, Exporter
    from kernelwright.evaluator import Record

CHOICE, SHAPE = "Selection", "Format"


def _upper(texts: Sequence[str]) -> list[str]:
    return [text.upper() for text in texts]


def _lower(texts: Sequence[str]) -> list[str]:
    return [text.lower() for text in texts]


def _backends(names: Sequence[str]) -> list[str]:
    from kernelwright.evaluator import find_backend

    return [find_backend(name).name for name in names]


OPTIONS: Final = MappingProxyType(
    {
        "export.filters.runs": SettingOption("--run", CHOICE, tuple, "RUN", completion.runs),
        "export.filters.problems": SettingOption(
            "--problem -p", CHOICE, tuple, "PROBLEM", completion.problems
        ),
        "export.filters.statuses": SettingOption("--status", CHOICE, _upper),
        "export.filters.tracks": SettingOption("--track", CHOICE, _lower),
        "export.filters.min_speedup": SettingOption("--min-speedup", CHOICE),
        "export.filters.hardware": SettingOption("--hardware", CHOICE, tuple),
        "export.filters.models": SettingOption("--model -m", CHOICE, tuple),
        "export.filters.licenses": SettingOption("--license", CHOICE, tuple),
        "export.filters.backends": SettingOption(
            "--backend -b", CHOICE, _backends, complete=completion.backends
        ),
        "export.decontaminate": SettingOption("--decontaminate", CHOICE, tuple, "PATH"),
        "export.dedup": SettingOption("--dedup", CHOICE),
        "export.slower": SettingOption("--slower", CHOICE),
        "export.reasoning": SettingOption("--reasoning", SHAPE),
        "export.pairing": SettingOption("--pair-by", SHAPE),
        "export.pairs": SettingOption("--pairs", SHAPE),
        "export.test": SettingOption("--test", SHAPE),
        "export.seed": SettingOption("--seed", SHAPE),
        "export.parquet": SettingOption("--parquet", SHAPE),
    }
)
"""Settings of exports that have an option."""

Format = Annotated[
    str,
    options.argument(
        "The format: sft, preference, unpaired, rl, trajectories, attempts, kernelbench, "
        "flashinfer, or one that another package registers.",
        "FORMAT",
        autocompletion=completion.formats,
    ),
]


@options.with_settings(*OPTIONS, table=OPTIONS)
def export(
    given: options.Given,
    format: Format,
    out: options.Out,
    workspace: options.Workspace = Path(),
    json: options.Json = False,
) -> None:
    """Write attempts as training data, or whole runs in the layout of another project.

    The folder of a dataset loads with `datasets.load_dataset(DIR)`; its README.md says how it was made.
    kernelbench and flashinfer take whole runs, with no filter but --run. Options that name something may be
    repeated. Exit status 1 means that no attempt gave a row.
    """
    from kernelwright.agent.datasets import find_exporter

    exporter = find_exporter(format)
    archive = kw.Workspace(workspace).archive(say_once())
    settings = _settings(exporter, given, archive)
    exported = exporter.write(archive, out, settings)
    if json:
        console.print_json(_summary(exporter, exported))
    else:
        _print(exported, is_split=getattr(settings, "test", 0.0) > 0)
    raise did_pass(bool(exported.rows))


def _settings(exporter: Exporter, given: options.Given, archive: kw.Archive) -> Record:
    """The settings of a format; an option that it would ignore is refused."""
    fields = exporter.settings.model_fields
    values = given.values.get("export", {})
    filters = values.get("filters", {})
    runs = [archive.find(name) for name in filters.get("runs", ())]
    ignored = [
        flag
        for path, flag in given.flags.items()
        if path.split(".")[1] not in fields and (flag != "--run" or "runs" not in fields)
    ]
    if ignored:
        raise UsageError(f"export {exporter.name} has no {', '.join(ignored)}; leave that out")
    every = {**values, "filters": {**filters, "runs": runs}, "runs": runs}
    known = {name: every[name] for name in every if name in fields}
    return validated(exporter.settings, known, prefix="export", names=given.flags)


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


def _print(exported: Exported, *, is_split: bool) -> None:
    for (table, split), count in sorted(exported.rows.items()):
        console.out().print(f"{count:>8} rows  {table}, {split}" if split else f"{count:>8} {table}")
    if is_split and {split for _, split in exported.rows} == {"train"}:
        console.out().print("       0 rows  in test: no problem fell there; raise --test, or change --seed")
    console.out().print(f"{exported.used:>8} of {exported.seen} attempts used")
    for reason, count in exported.left_out.most_common():
        console.out().print(f"{count:>8} not: {reason}", style="dim")
    if exported.hint:
        console.out().print(f"note     {exported.hint}", soft_wrap=True)
    if exported.folder.exists():
        console.out().print(f"data     {exported.folder.resolve()}", soft_wrap=True)
