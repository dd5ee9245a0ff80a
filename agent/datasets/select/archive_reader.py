"""Reads an archive into a stage, and counts the attempts that an export cannot use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.datasets.export_settings import DatasetSettings
from kernelwright.agent.datasets.exporter import Exported
from kernelwright.agent.datasets.select.attempt_stage import AttemptStage
from kernelwright.agent.datasets.select.filters import OF_ATTEMPTS, KnownNames, refusal
from kernelwright.agent.datasets.select.splits import ProblemSplits
from kernelwright.agent.records.atomic_folder import UnusableExport
from kernelwright.agent.records.attempt_log import Attempt, ProblemUsed

if TYPE_CHECKING:
    from kernelwright.agent.datasets.dataset_export import DatasetExporter

UNEVALUATED: Final = "not judged"
CONTAMINATED: Final = "decontamination"
REPEATED: Final = "its id is there already"
DAMAGED: Final = "a text of it is missing or damaged"


@dataclass(frozen=True, slots=True)
class ArchiveReader:
    """Reads every run once."""

    archive: Archive
    format: DatasetExporter
    settings: DatasetSettings
    stage: AttemptStage
    splits: ProblemSplits
    exported: Exported

    def read(self) -> None:
        """Fill the stage.

        Raises:
            UnusableExport: a filter matches no attempt at all.
            ArchiveError: a line is damaged or newer than this program, and the archive does not skip it.
        """
        names = KnownNames()
        for run in self.archive.runs():
            known = self.archive.problems_used(run)
            for attempt in self.archive.attempts(run):
                self.stage.observe(attempt)
                names.observe(attempt)
                try:
                    self._take(attempt, known.get(attempt.key.problem))
                except ArchiveError:
                    self.exported.left_out[DAMAGED] += 1
        self.stage.finish()
        if misspelt := names.misspelt(self.settings.filters):
            raise UnusableExport(misspelt)

    def _take(self, attempt: Attempt, problem: ProblemUsed | None) -> None:
        tally = self.exported
        tally.seen += 1
        refused = refusal(attempt, self.settings.filters)
        is_turn = self.format.is_conversational and refused in OF_ATTEMPTS
        reason = f"filter: {refused}" if refused and not is_turn else self._unfit(attempt, problem)
        if reason:
            tally.left_out[reason] += 1
            return
        if not self.stage.add(attempt, problem_sha=problem.sha if problem else "", is_wanted=not refused):
            tally.left_out[REPEATED] += 1
            return
        if not tally.runs or tally.runs[-1] != attempt.key.run:
            tally.runs.append(attempt.key.run)

    def _unfit(self, attempt: Attempt, problem: ProblemUsed | None) -> str:
        if attempt.status is None and not self.format.takes_unevaluated:
            return UNEVALUATED
        if not self.format.takes_promptless and not attempt.completion.prompt:
            return "no prompt"
        sha, run = problem.sha if problem else "", attempt.key.run
        if not self.splits.is_known(attempt.key.problem, sha):
            source = self.archive.text(run, problem.source) if problem else None
            self.splits.learn(attempt.key.problem, sha, source)
        if self.settings.decontaminate and (not sha or self.splits.is_contaminated(sha)):
            return CONTAMINATED
        return ""
