"""The dataset card: what is in the files, how it was chosen, and the command that makes it again.

Its front matter declares files and columns, so that `datasets.load_dataset(FOLDER)` needs no script.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.agent.datasets.export_settings import Settings
from kernelwright.agent.datasets.select.archive_reader import Tally
from kernelwright.agent.datasets.select.splits import TEST, TRAIN
from kernelwright.agent.datasets.write.features import CONFIGS, Config, Feature, as_yaml
from kernelwright.agent.datasets.write.row_files import JSONL, PARQUET

ABOUT = {
    "source": "where the answer comes from, under which licence, and what was measured",
    "prompt_tokens": "an estimate without a tokenizer, good to about a fifth",
    "completion_tokens": "an estimate without a tokenizer, good to about a fifth",
    "verifier": "JSON of the policy to judge under: kernelwright's `EvaluationConfig`",
    "rewards": "one for each turn, in order; see below",
    "turns": "`message` is the answer's place in `messages`, `continues` that of the answer it goes on from",
    "doubt": "why an attempt that passed is not used as an example; empty for all others",
    "problem_sha": "SHA-256 of the reference's source",
}


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What a card states."""

    settings: Settings
    tally: Tally
    rows: Mapping[tuple[str, str], int]
    """By table and split."""
    problems: Mapping[str, int]
    """Problems that have attempts in the split."""
    licenses: Counter[str]
    """Licences of attempts that were read; empty for unknown."""
    command: str
    version: str


def manifest(facts: CardFacts) -> str:
    """The same counts for machines, JSON."""
    value = {
        "format": facts.settings.format,
        "settings": facts.settings.model_dump(mode="json"),
        "rows": {
            config.name: {split: facts.rows[config.name, split] for split in _splits(facts, config)}
            for config in CONFIGS[facts.settings.format]
        },
        "attempts": {
            "seen": facts.tally.seen,
            "used": facts.tally.used,
            "left_out": dict(sorted(facts.tally.left_out.items())),
        },
        "problems": dict(facts.problems),
        "runs": facts.tally.runs,
        "licenses": dict(sorted(facts.licenses.items())),
        "command": facts.command,
        "version": facts.version,
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def card(facts: CardFacts) -> str:
    """The whole `README.md`."""
    settings, tally = facts.settings, facts.tally
    configs = CONFIGS[settings.format]
    parts = [
        "---",
        *_yaml(_front_matter(facts)),
        "---",
        "",
        f"# {settings.format.capitalize()} data of GPU kernels, judged by kernelwright",
        "",
        f"Made by kernelwright {facts.version}. Every score is a measurement; every row says where it comes "
        "from and under which licence.",
        "",
        "```sh",
        facts.command,
        "```",
        "",
        "## Rows",
        "",
        *_table(
            ("table", "split", "rows"), [(*key, str(count)) for key, count in sorted(facts.rows.items())]
        ),
        "",
        f"Problems: {', '.join(f'{count} in {split}' for split, count in facts.problems.items())}. A problem "
        "is on one side only, and so are problems whose references are nearly the same.",
        "",
        "## Attempts",
        "",
        f"{tally.seen} attempts were read, {tally.used} are used, {sum(tally.left_out.values())} are not:",
        "",
        *_table(("reason", "attempts"), [(name, str(count)) for name, count in tally.left_out.most_common()]),
        "",
        "## Choice",
        "",
        *_table(("setting", "value"), _settings_rows(settings)),
        "",
        "Examples to follow (`chosen`, `label: true`, supervised answers) were judged `PASSED`. None of them "
        "is of a flawed problem, was convicted at another time, or escaped the sanitizers on a machine that "
        "has them.",
        "",
        "Reward: -1 for deceiving, 0 for any other failure and for a doubtful pass, else 0.3 plus the lower "
        "end of the speedup's 95 % interval, at most 10.",
        "",
        "## Columns",
    ]
    for config in configs:
        parts += ["", f"### {config.name}", "", config.about, "", *_columns(config)]
    parts += ["", "## Licences", "", *_table(("licence", "attempts"), _license_rows(facts.licenses)), ""]
    return "\n".join(parts)


def _front_matter(facts: CardFacts) -> dict[str, object]:
    configs = [config for config in CONFIGS[facts.settings.format] if _splits(facts, config)]
    known = {name for name in facts.licenses if name}
    return {
        "license": known.pop().lower() if len(facts.licenses) == len(known) == 1 else "other",
        "task_categories": ["text-generation"],
        "tags": ["kernelwright", "gpu-kernels", "code", facts.settings.format.value],
        "configs": [
            {
                "config_name": config.name,
                "default": number == 0,
                "data_files": [
                    {"split": split, "path": f"{config.name}/{split}.{_form(facts.settings)}"}
                    for split in _splits(facts, config)
                ],
            }
            for number, config in enumerate(configs)
        ],
        "dataset_info": [
            {"config_name": config.name, "features": as_yaml(config.features)} for config in configs
        ],
    }


def _form(settings: Settings) -> str:
    return PARQUET if settings.parquet else JSONL


def _splits(facts: CardFacts, config: Config) -> list[str]:
    return [split for split in (TRAIN, TEST) if (config.name, split) in facts.rows]


def _settings_rows(settings: Settings) -> list[tuple[str, str]]:
    values = settings.model_dump(mode="json")
    values |= {f"filter: {name}": value for name, value in values.pop("filters").items()}
    return [
        (name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for name, value in values.items()
        if value not in ([], None)
    ]


def _license_rows(licenses: Counter[str]) -> list[tuple[str, str]]:
    return [(name or "not stated", str(count)) for name, count in licenses.most_common()]


def _columns(config: Config) -> list[str]:
    rows = [(f"`{name}`", _type(kind), ABOUT.get(name, "")) for name, kind in config.features.items()]
    return _table(("column", "type", ""), rows)


def _type(feature: Feature) -> str:
    match feature:
        case str():
            return feature
        case list():
            return f"list of {_type(feature[0])}"
        case dict():
            return f"{{{', '.join(feature)}}}"


def _table(heading: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [heading, tuple("---" for _ in heading), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _yaml(value: object, indent: int = 0) -> list[str]:
    """A mapping or a list in YAML's block form; single values as JSON, which is YAML too."""
    space = " " * indent
    lines: list[str] = []
    items = value.items() if isinstance(value, Mapping) else [("-", item) for item in _listed(value)]
    for name, item in items:
        head = f"{space}- " if name == "-" else f"{space}{name}:"
        if isinstance(item, Mapping) and name == "-":
            first, *rest = _yaml(item, indent + 2)
            lines += [head + first.lstrip(), *rest]
        elif isinstance(item, Mapping | list):
            lines += [head, *_yaml(item, indent + 2)]
        else:
            lines.append(f"{head.rstrip()} {json.dumps(item)}")
    return lines


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
