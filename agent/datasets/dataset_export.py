"""The exporter of training data: reads an archive, selects, writes rows and describes them in a card."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.datasets.export_settings import DatasetSettings, Dedup
from kernelwright.agent.datasets.exporter import Exported
from kernelwright.agent.datasets.policy import NEAR_SHARE
from kernelwright.agent.datasets.select.attempt_stage import AttemptStage
from kernelwright.agent.datasets.select.filters import OF_ATTEMPTS, KnownNames, refusal
from kernelwright.agent.datasets.select.near_duplicates import Repeats, sketch
from kernelwright.agent.datasets.select.splits import ProblemSplits, forbidden_sources
from kernelwright.agent.datasets.write.columns import DatasetTable, Row
from kernelwright.agent.datasets.write.dataset_card import card, manifest
from kernelwright.agent.datasets.write.message_texts import MessageTexts
from kernelwright.agent.datasets.write.row_files import RowFiles
from kernelwright.agent.records.atomic_folder import UnusableExport, appearing
from kernelwright.agent.records.attempt_log import Attempt, ProblemUsed
from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.evaluator import Record

DAMAGED: Final = "a text of it is missing or damaged"
REPEAT: Final = "repeat"


@dataclass(frozen=True, slots=True)
class DatasetExport:
    """One export while it is made: its attempts are staged, then a format writes them problem by problem."""

    format: DatasetExporter
    archive: Archive
    settings: DatasetSettings
    stage: AttemptStage
    splits: ProblemSplits
    files: RowFiles
    texts: MessageTexts
    exported: Exported

    def read(self) -> None:
        """Fill the stage, reading every run once.

        Raises:
            UnusableExport: a filter matches no attempt at all.
            ArchiveError: a line is damaged or newer than this program, and the archive does not skip it.
        """
        names = KnownNames()
        for run in self.archive.runs():
            known = self.archive.problems_used(run)
            for attempt in self.archive.attempts(run):
                self.exported.seen += 1
                self.stage.observe(attempt)
                names.observe(attempt)
                try:
                    reason = self._take(attempt, known.get(attempt.key.problem))
                except ArchiveError:
                    reason = DAMAGED
                if reason:
                    self.leave_out(reason)
                elif run not in self.exported.runs[-1:]:
                    self.exported.runs.append(run)
        if misspelt := names.misspelt(self.settings.filters):
            raise UnusableExport(misspelt)

    def emit(self) -> None:
        """Write every row; an attempt whose texts are missing or damaged is in none."""
        for problem in self.stage.problems():
            facts = self.stage.views(problem)
            damaged = self._damaged(facts)
            self.leave_out(DAMAGED, len(damaged))
            whole = self._wanted([one for one in facts if one.attempt not in damaged])
            self.format.write_rows(self, self.splits.split(problem), whole)

    def put(self, split: str, rows: dict[str, Row], attempts: int = 1) -> None:
        """Write a row of each table, made of so many attempts that are in no other."""
        for table, row in rows.items():
            self.files.write(table, split, row)
        self.exported.used += attempts

    def leave_out(self, reason: str, count: int = 1) -> None:
        """Count attempts that are in no row."""
        if count:
            self.exported.left_out[reason] += count

    def examples(self, attempts: list[AttemptView]) -> Iterator[AttemptView]:
        """Passes without a doubt, without repeats, policy by policy, the fastest of each first."""
        passed = [facts for facts in attempts if facts.passed]
        policies = list(dict.fromkeys(facts.policy for facts in passed))
        passed.sort(key=lambda facts: (policies.index(facts.policy), -(facts.low or 0.0)))
        repeats = self.repeats()
        for facts in passed:
            if doubt := self.stage.doubt(facts):
                self.leave_out(f"doubt: {doubt}")
            elif self._is_new(facts, repeats):
                yield facts

    def failures(self, attempts: list[AttemptView]) -> Iterator[AttemptView]:
        """Failures, without repeats."""
        repeats = self.repeats()
        return (facts for facts in attempts if facts.failed and self._is_new(facts, repeats))

    def repeats(self) -> Repeats | None:
        """A memory of sources; None where repeats are wanted."""
        if self.settings.dedup is Dedup.NONE:
            return None
        return Repeats(NEAR_SHARE if self.settings.dedup is Dedup.NEAR else None)

    def _take(self, attempt: Attempt, problem: ProblemUsed | None) -> str:
        """Stage an attempt; return the reason where it is not used."""
        refused = refusal(attempt, self.settings.filters)
        if refused and not (self.format.is_conversational and refused in OF_ATTEMPTS):
            return f"filter: {refused}"
        if attempt.status is None and not self.format.takes_unevaluated:
            return "not judged"
        if not self.format.takes_promptless and not attempt.completion.prompt:
            return "no prompt"
        sha, run = problem.sha if problem else "", attempt.key.run
        if not self.splits.is_known(attempt.key.problem, sha):
            source = self.archive.text(run, problem.source) if problem else None
            self.splits.learn(attempt.key.problem, sha, source)
        if self.settings.decontaminate and (not sha or self.splits.is_contaminated(sha)):
            return "decontamination"
        is_new = self.stage.add(attempt, problem_sha=sha, is_wanted=not refused)
        return "" if is_new else "its id is there already"

    def _wanted(self, attempts: list[AttemptView]) -> list[AttemptView]:
        least = self.settings.filters.min_speedup
        if least is None:
            return attempts
        slow = {
            one.attempt for one in attempts if one.passed and (one.low is None or (one.speedup or 0) < least)
        }
        if self.format.is_conversational:
            return [replace(one, is_wanted=one.is_wanted and one.attempt not in slow) for one in attempts]
        self.leave_out("filter: min speedup", len(slow))
        return [one for one in attempts if one.attempt not in slow]

    def _damaged(self, attempts: list[AttemptView]) -> set[str]:
        damaged = [facts for facts in attempts if not self._is_whole(facts)]
        if self.format.is_conversational:
            # A conversation that lacks a turn is unusable.
            lost = {facts.conversation for facts in damaged}
            damaged = [facts for facts in attempts if facts.conversation in lost]
        return {facts.attempt for facts in damaged}

    def _is_whole(self, facts: AttemptView) -> bool:
        attempt, texts = self.stage.attempt(facts), self.texts
        try:
            texts.prompt(attempt), texts.reply(attempt), texts.code(attempt)
            if self.format.needs_reference:
                texts.policy(facts.run), texts.reference(facts.run, facts.problem)
        except ArchiveError:
            return False
        return True

    def _is_new(self, facts: AttemptView, repeats: Repeats | None) -> bool:
        attempt = self.stage.attempt(facts)
        reply = self.texts.reply(attempt)
        if not reply:
            self.leave_out("no answer beside its thoughts")
            return False
        if repeats is not None and not repeats.add(sketch(self.texts.code(attempt) or reply)):
            self.leave_out(REPEAT)
            return False
        return True


RowWriter: TypeAlias = Callable[[DatasetExport, str, list[AttemptView]], None]
"""Writes the rows of one problem: export, split, attempts."""


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
        texts = MessageTexts(archive, settings.reasoning)
        splits = ProblemSplits(
            test=settings.test, seed=settings.seed, forbidden=forbidden_sources(settings.decontaminate)
        )
        stage = AttemptStage(takes_slower=settings.slower)
        export = DatasetExport(self, archive, settings, stage, splits, files, texts, exported)
        export.read()
        with closing(files):
            export.emit()
        facts = manifest(export)
        (folder / "README.md").write_text(card(facts, self.tables), "utf-8")
        (folder / "manifest.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", "utf-8")
