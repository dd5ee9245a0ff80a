"""Exports load with `datasets` and are taken by TRL's own helpers; both are test extras."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelwright.evaluator import Status
from tests.agent.datasets.conftest import DATASET_FORMATS

if TYPE_CHECKING:
    from tests.agent.datasets.conftest import Desk

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PROBLEMS = tuple(f"level1/{number:02}_p" for number in range(1, 9))


def fill(desk: Desk) -> None:
    """Answers of every kind; licences and speeds appear late, when columns were already read as empty."""
    with desk.log(*PROBLEMS) as log:
        for number, name in enumerate(PROBLEMS):
            late = number > 5
            common: dict[str, Any] = {"problem": name, "license": "MIT" if late else None}
            desk.attempt(log, sample=0, speed=(3.0, 3.1) if late else None, **common)
            desk.attempt(log, sample=1, speed=(1.0, 1.1), **common)
            desk.attempt(log, Status.WRONG_VALUES, sample=2, said="no \ud800 \u2028 luck", **common)


def load(folder: Path, cache: Path, name: str | None = None) -> Any:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    return datasets.load_dataset(str(folder), name, cache_dir=str(cache))


@pytest.mark.parametrize("parquet", [False, True], ids=["jsonl", "parquet"])
@pytest.mark.parametrize("format", DATASET_FORMATS)
def test_every_format_loads_without_a_script(desk: Desk, format: str, parquet: bool) -> None:
    pytest.importorskip("datasets")
    fill(desk)
    exported = desk.export(format, test=0.4, parquet=parquet)
    for table in {table for table, _ in exported.rows}:
        loaded = load(exported.folder, desk.root / "cache", table)
        assert {(table, side): len(rows) for side, rows in loaded.items()} == {
            key: count for key, count in exported.rows.items() if key[0] == table
        }
    assert set(load(exported.folder, desk.root / "cache")) <= {"train", "test"}


def test_trl_takes_supervised_and_preference_rows(desk: Desk) -> None:
    trl = pytest.importorskip("trl")
    utilities = pytest.importorskip("trl.data_utils")
    fill(desk)
    for format, table in (("sft", "messages"), ("sft", "prompt_completion"), ("preference", "preference")):
        folder = desk.root / f"{format}-{table}"
        if not folder.exists():
            desk.export(format, folder.name, test=0)
        rows = load(folder, desk.root / "cache", table)["train"]
        columns = {"messages", "prompt", "completion", "chosen", "rejected"} & set(rows.column_names)
        rows = rows.select_columns(sorted(columns))
        assert len(rows)
        assert all(utilities.is_conversational(row) for row in rows)
        shaped = [utilities.maybe_apply_chat_template(row, Tokenizer()) for row in rows]
        assert "class ModelNew" in str(shaped[0])
    assert trl.__version__


class Tokenizer:
    """As much of a tokenizer as a chat template needs."""

    eos_token = ""

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> str:
        text = "".join(f"<{message['role']}>{message['content']}\n" for message in messages)
        return text + ("<assistant>" if options.get("add_generation_prompt") else "")


def test_parquet_without_pyarrow_says_what_to_install(desk: Desk) -> None:
    try:
        import pyarrow  # noqa: F401  # only whether it is there
    except ImportError:
        from kernelwright.agent.datasets import UnusableExport

        with pytest.raises(UnusableExport, match=r"kernelwright\[export\]"):
            desk.export("sft", parquet=True)
    else:
        assert desk.export("sft", parquet=True).rows == {}
