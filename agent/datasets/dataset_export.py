"""The exporter of training data: reads an archive, selects, writes rows and describes them in a card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from kernelwright.agent.archive import Archive
from kernelwright.agent.datasets.export_settings import DatasetSettings
from kernelwright.agent.datasets.exporter import Exported
from kernelwright.agent.datasets.select.archive_reader import ArchiveReader
from kernelwright.agent.datasets.select.attempt_stage import AttemptStage
from kernelwright.agent.datasets.select.splits import ProblemSplits, forbidden_sources
from kernelwright.agent.datasets.write.columns import DatasetTable
from kernelwright.agent.datasets.write.dataset_card import CardFacts, card, manifest
from kernelwright.agent.datasets.write.message_texts import MessageTexts
from kernelwright.agent.datasets.write.row_emitter import RowEmitter
from kernelwright.agent.datasets.write.row_files import RowFiles
from kernelwright.agent.records.atomic_folder import appearing
from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.agent.records.provenance import versions
from kernelwright.evaluator import Record

RowWriter: TypeAlias = Callable[[RowEmitter, str, list[AttemptView]], None]
"""Writes the rows of one problem: emitter, split, attempts."""


@dataclass(frozen=True, slots=True)
class DatasetExporter:
    """A format of training data; implements `Exporter`."""

    name: str
    description: str
    tables: tuple[DatasetTable, ...]
    write_rows: RowWriter
    settings: type[Record] = DatasetSettings
    takes_unevaluated: bool = False
    takes_promptless: bool = False
    is_conversational: bool = False
    """Turns that a filter refuses stay where their conversation is wanted."""
    needs_reference: bool = False

    def write(self, archive: Archive, out: Path, settings: Record) -> Exported:
        """Write a dataset to a folder that is new or empty.

        Raises:
            UnusableExport: the folder is not empty, pyarrow is missing, a filter matches no attempt, or there
                is nothing to decontaminate against.
            ArchiveError, OSError: as `Exporter.write`.
        """
        chosen = DatasetSettings.model_validate(settings, from_attributes=True)
        exported = Exported(out)
        with appearing(out) as pending:
            self._fill(archive, pending.path, chosen, exported)
        return exported

    def _fill(self, archive: Archive, folder: Path, settings: DatasetSettings, exported: Exported) -> None:
        files = RowFiles(folder, self.tables, exported.rows, parquet=settings.parquet)
        splits = ProblemSplits(
            test=settings.test, seed=settings.seed, forbidden=forbidden_sources(settings.decontaminate)
        )
        with closing(AttemptStage(folder / "stage.sqlite", takes_slower=settings.slower)) as stage:
            ArchiveReader(archive, self, settings, stage, splits, exported).read()
            with closing(files):
                texts = MessageTexts(archive, settings.reasoning)
                RowEmitter(self, settings, stage, splits, files, texts, exported).emit()
            facts = CardFacts(
                format=self.name,
                tables=self.tables,
                settings=settings,
                exported=exported,
                problems=Counter(splits.split(problem) for problem in stage.problems()),
                licenses=stage.licenses(),
                policies=stage.policies(),
                command=settings.command(self.name, str(archive.folder.parent), str(exported.folder)),
                version=versions().get("kernelwright", "unknown"),
            )
        (folder / "README.md").write_text(card(facts), "utf-8")
        (folder / "manifest.json").write_text(manifest(facts), "utf-8")
