"""The dataset card: contents, selection, and the command that makes the dataset again.

Its front matter declares files and columns, so that `datasets.load_dataset(FOLDER)` needs no script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jinja2 import Environment, StrictUndefined

from kernelwright.agent.datasets.select.splits import TEST, TRAIN
from kernelwright.agent.datasets.write.columns import DatasetTable, Feature, as_yaml
from kernelwright.agent.datasets.write.row_files import JSONL, PARQUET
from kernelwright.agent.records.provenance import versions

if TYPE_CHECKING:
    from kernelwright.agent.datasets.dataset_export import DatasetExport

ABOUT: Final = {
    "source": "origin, licence, measurements, and the software they were made with",
    "prompt_tokens": "an estimate without a tokenizer, good to about a fifth",
    "completion_tokens": "an estimate without a tokenizer, good to about a fifth",
    "verifier": "JSON of the policy to evaluate under: kernelwright's `EvaluationConfig`",
    "rewards": "one for each turn, in order",
    "turns": "`message` is the answer's place in `messages`, `continues` that of the answer it continues",
    "policy": "short hash of what a speedup depends on; only speedups of one policy compare",
    "unfit": "why a speedup is not to be compared, such as contended; empty where it is",
    "doubt": "the reason not to use a pass as an example; empty for all others",
    "problem_sha": "SHA-256 of the reference's source",
}
SIZES: Final = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
"""Categories of the hub, by number of rows (https://huggingface.co/docs/hub/datasets-cards)."""


Facts: TypeAlias = dict[str, Any]  # Any: JSON, the contents of `manifest.json`


def manifest(export: DatasetExport) -> Facts:
    """The contents of a dataset and the way it was made, for machines and for the card."""
    exported, stage, tables = export.exported, export.stage, export.format.tables
    return {
        "format": export.format.name,
        "settings": export.settings.model_dump(mode="json"),
        "rows": {
            table.name: {
                split: exported.rows[table.name, split]
                for split in (TRAIN, TEST)
                if (table.name, split) in exported.rows
            }
            for table in tables
        },
        "attempts": {
            "seen": exported.seen,
            "used": exported.used,
            "left_out": dict(sorted(exported.left_out.items())),
        },
        "problems": dict(Counter(map(export.splits.split, stage.problems()))),
        "runs": exported.runs,
        "licenses": dict(sorted(stage.licenses.items())),
        "policies": dict(sorted(stage.policies().items())),
        "command": export.settings.command(
            export.format.name, str(export.archive.folder.parent), str(exported.folder)
        ),
        "version": versions().get("kernelwright", "unknown"),
    }


def card(facts: Facts, tables: Sequence[DatasetTable]) -> str:
    """The whole `README.md`."""
    text = (files("kernelwright.agent.datasets.write") / "card.md.j2").read_text("utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    rows = [(name, split, count) for name, of in facts["rows"].items() for split, count in of.items()]
    total, licenses = sum(count for *_, count in rows), _by_count(facts["licenses"])
    return environment.from_string(text).render(
        facts=facts,
        tables=tables,
        title=f"Kernels evaluated by kernelwright: {facts['format']}",
        license=licenses[0][0].lower() or "other" if len(licenses) == 1 else "other",
        size=next((name for most, name in SIZES if total < most), "n>1M"),
        parts=[(table, splits) for table in tables if (splits := list(facts["rows"][table.name]))],
        form=PARQUET if facts["settings"]["parquet"] else JSONL,
        features=lambda table: as_yaml(table.features),
        rows=sorted(rows),
        settings=_settings_rows(facts["settings"]),
        left_out=_by_count(facts["attempts"]["left_out"]),
        policies=_by_count(facts["policies"]),
        licenses=[(name or "not stated", count) for name, count in licenses],
        table=_table,
        columns=lambda table: [
            (f"`{name}`", _type(kind), ABOUT.get(name, "")) for name, kind in table.features.items()
        ],
    )


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda of: (-of[1], of[0]))


def _settings_rows(settings: Facts) -> list[tuple[str, str]]:
    values = {name: value for name, value in settings.items() if name != "filters"}
    values |= {f"filter: {name}": value for name, value in settings["filters"].items()}
    return [
        (name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for name, value in values.items()
        if value not in ([], None)
    ]


def _type(feature: Feature) -> str:
    match feature:
        case str():
            return feature
        case list():
            return f"list of {_type(feature[0])}"
        case dict():
            return f"{{{', '.join(feature)}}}"


def _table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    cells = ([str(cell).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
