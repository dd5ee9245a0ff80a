"""The dataset card: contents, selection, and the command that makes the dataset again.

Its front matter declares files and columns, so that `datasets.load_dataset(FOLDER)` needs no script.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined

from kernelwright.agent.datasets.export_settings import DatasetSettings
from kernelwright.agent.datasets.exporter import Exported
from kernelwright.agent.datasets.select.splits import TEST, TRAIN
from kernelwright.agent.datasets.write.columns import DatasetTable, Feature, as_yaml
from kernelwright.agent.datasets.write.row_files import JSONL, PARQUET

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


@dataclass(frozen=True, slots=True)
class CardFacts:
    """The contents of a card."""

    format: str
    tables: tuple[DatasetTable, ...]
    settings: DatasetSettings
    exported: Exported
    problems: Mapping[str, int]
    """Problems with attempts, by split."""
    licenses: Counter[str]
    """Attempts by licence; an empty name where none is stated."""
    policies: Mapping[str, int]
    """Attempts with a score, by the policy in words."""
    command: str
    version: str


def manifest(facts: CardFacts) -> str:
    """The same counts for machines, JSON."""
    exported = facts.exported
    value = {
        "format": facts.format,
        "settings": facts.settings.model_dump(mode="json"),
        "rows": {
            table.name: {split: exported.rows[table.name, split] for split in _splits(facts, table)}
            for table in facts.tables
        },
        "attempts": {
            "seen": exported.seen,
            "used": exported.used,
            "left_out": dict(sorted(exported.left_out.items())),
        },
        "problems": dict(facts.problems),
        "runs": exported.runs,
        "licenses": dict(sorted(facts.licenses.items())),
        "policies": dict(sorted(facts.policies.items())),
        "command": facts.command,
        "version": facts.version,
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def card(facts: CardFacts) -> str:
    """The whole `README.md`."""
    text = (files("kernelwright.agent.datasets.write") / "card.md.j2").read_text("utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    known, total = {name for name in facts.licenses if name}, facts.exported.rows.total()
    return environment.from_string(text).render(
        facts=facts,
        title=f"Kernels evaluated by kernelwright: {facts.format}",
        license=known.pop().lower() if len(facts.licenses) == len(known) == 1 else "other",
        size=next((name for most, name in SIZES if total < most), "n>1M"),
        parts=[(table, splits) for table in facts.tables if (splits := _splits(facts, table))],
        form=PARQUET if facts.settings.parquet else JSONL,
        features=lambda table: as_yaml(table.features),
        rows=[(*key, count) for key, count in sorted(facts.exported.rows.items())],
        settings=_settings_rows(facts.settings),
        policies=sorted(facts.policies.items(), key=lambda of: (-of[1], of[0])),
        licenses=[
            (name or "not stated", count)
            for name, count in sorted(facts.licenses.items(), key=lambda of: (-of[1], of[0]))
        ],
        table=_table,
        columns=lambda table: [
            (f"`{name}`", _type(kind), ABOUT.get(name, "")) for name, kind in table.features.items()
        ],
    )


def _splits(facts: CardFacts, table: DatasetTable) -> list[str]:
    return [split for split in (TRAIN, TEST) if (table.name, split) in facts.exported.rows]


def _settings_rows(settings: DatasetSettings) -> list[tuple[str, str]]:
    values = settings.model_dump(mode="json")
    values |= {f"filter: {name}": value for name, value in values.pop("filters").items()}
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
