"""Selects examples among the staged attempts, problem by problem, and writes the rows of a format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kernelwright.agent.archive import ArchiveError
from kernelwright.agent.datasets.export_settings import DatasetSettings, Dedup
from kernelwright.agent.datasets.exporter import Exported
from kernelwright.agent.datasets.policy import NEAR_SHARE
from kernelwright.agent.datasets.select.archive_reader import DAMAGED
from kernelwright.agent.datasets.select.attempt_stage import AttemptStage
from kernelwright.agent.datasets.select.near_duplicates import Repeats, sketch
from kernelwright.agent.datasets.select.splits import ProblemSplits
from kernelwright.agent.datasets.write.columns import Row
from kernelwright.agent.datasets.write.message_texts import MessageTexts
from kernelwright.agent.datasets.write.row_files import RowFiles
from kernelwright.agent.records.attempt_view import AttemptView

if TYPE_CHECKING:
    from kernelwright.agent.datasets.dataset_export import DatasetExporter

REPEAT: Final = "repeat"
SILENT: Final = "no answer beside its thoughts"


@dataclass(frozen=True, slots=True)
class RowEmitter:
    """One export while its rows are written; a format's `write_rows` is called once a problem."""

    format: DatasetExporter
    settings: DatasetSettings
    stage: AttemptStage
    splits: ProblemSplits
    files: RowFiles
    texts: MessageTexts
    exported: Exported

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
            self.leave_out(SILENT)
            return False
        if repeats is not None and not repeats.add(sketch(self.texts.code(attempt) or reply)):
            self.leave_out(REPEAT)
            return False
        return True
