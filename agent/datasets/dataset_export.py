"""Makes a dataset of an archive: read, choose, write, describe; the folder appears whole or not at all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kernelwright.agent.archive import Archive
from kernelwright.agent.datasets.export_settings import Settings
from kernelwright.agent.datasets.select.archive_reader import Reader, Tally
from kernelwright.agent.datasets.select.attempt_stage import AttemptStage
from kernelwright.agent.datasets.write.dataset_card import CardFacts, card, manifest
from kernelwright.agent.datasets.write.features import CONFIGS
from kernelwright.agent.datasets.write.message_texts import Texts
from kernelwright.agent.datasets.write.row_emitter import Emitter
from kernelwright.agent.datasets.write.row_files import Tables
from kernelwright.agent.records.atomic_folder import appearing


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    folder: Path
    rows: dict[tuple[str, str], int]
    """By table and split."""
    tally: Tally


def export(archive: Archive, out: Path, settings: Settings, *, workspace: Path = Path()) -> Exported:
    """Write a dataset to a folder that is new or empty.

    Raises:
        UnusableExport: the folder holds something, pyarrow is missing, a filter fits no attempt at all, or
            there is nothing to decontaminate against.
        ArchiveError: a line is damaged, and the archive does not pass it over.
        OSError: disk full, or not writable; nothing is left behind.
    """
    with appearing(out) as pending:
        exported = _write(archive, pending.path, settings, settings.command(str(workspace), str(out)))
    return Exported(out, exported.rows, exported.tally)


def _write(archive: Archive, folder: Path, settings: Settings, command: str) -> Exported:
    tables = Tables(folder, CONFIGS[settings.format], parquet=settings.parquet)
    with AttemptStage(folder / "stage.sqlite") as stage:
        reader = Reader(archive, settings, stage)
        reader.read()
        with tables:
            texts = Texts(archive, settings.reasoning)
            Emitter(archive, settings, stage, reader, tables, texts).emit()
        facts = CardFacts(
            settings=settings,
            tally=reader.tally,
            rows=tables.counts,
            problems=Counter(reader.problems.split(problem) for problem in stage.problems()),
            licenses=stage.licenses(),
            command=command,
            version=_version(),
        )
    (folder / "README.md").write_text(card(facts), "utf-8")
    (folder / "manifest.json").write_text(manifest(facts), "utf-8")
    return Exported(folder, dict(tables.counts), reader.tally)


def _version() -> str:
    try:
        return version("kernelwright")
    except PackageNotFoundError:
        return "unknown"
