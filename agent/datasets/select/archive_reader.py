"""Reads an archive into a stage, and counts the attempts that an export cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.datasets.export_settings import DatasetSettings
from kernelwright.agent.datasets.exporter import Exported
from kernelwright.agent.datasets.select.attempt_stage import AttemptStage
from kernelwright.agent.datasets.select.filters import OF_ATTEMPTS, KnownNames, refusal
from kernelwright.agent.datasets.select.splits import ProblemSplits, forbidden_sources
from kernelwright.agent.records.atomic_folder import UnusableExport
from kernelwright.agent.records.attempt_log import Attempt, ProblemUsed

if TYPE_CHECKING:
    from kernelwright.agent.datasets.dataset_export import DatasetExporter

UNEVALUATED: Final = "not judged"
CONTAMINATED: Final = "decontamination"
REPEATED: Final = "its id is there already"
DAMAGED: Final = "a text of it is missing or damaged"


class ArchiveReader:
    """Reads every run once."""

    def __init__(
        self,
        archive: Archive,
        format: DatasetExporter,
        settings: DatasetSettings,
        stage: AttemptStage,
        exported: Exported,
    ) -> None:
        """Read the problems to decontaminate against.

        Raises:
            UnusableExport: a folder of them holds no problems.
        """
        self.splits = ProblemSplits(
            test=settings.test, seed=settings.seed, forbidden=forbidden_sources(settings.decontaminate)
        )
        self._archive = archive
        self._format = format
        self._settings = settings
        self._stage = stage
        self._exported = exported

    def read(self) -> None:
        """Fill the stage.

        Raises:
            UnusableExport: a filter matches no attempt at all.
            ArchiveError: a line is damaged or newer than this program, and the archive does not skip it.
        """
        names = KnownNames()
        for run in self._archive.runs():
            known = self._archive.problems_used(run)
            for attempt in self._archive.attempts(run):
                self._stage.observe(attempt)
                names.observe(attempt)
                try:
                    self._take(attempt, known.get(attempt.key.problem))
                except ArchiveError:
                    self._exported.left_out[DAMAGED] += 1
        self._stage.finish()
        if misspelt := names.misspelt(self._settings.filters):
            raise UnusableExport(misspelt)

    def _take(self, attempt: Attempt, problem: ProblemUsed | None) -> None:
        tally = self._exported
        tally.seen += 1
        refused = refusal(attempt, self._settings.filters)
        is_turn = self._format.is_conversational and refused in OF_ATTEMPTS
        reason = f"filter: {refused}" if refused and not is_turn else self._unfit(attempt, problem)
        if reason:
            tally.left_out[reason] += 1
            return
        if not self._stage.add(attempt, problem_sha=problem.sha if problem else "", is_wanted=not refused):
            tally.left_out[REPEATED] += 1
            return
        if not tally.runs or tally.runs[-1] != attempt.key.run:
            tally.runs.append(attempt.key.run)

    def _unfit(self, attempt: Attempt, problem: ProblemUsed | None) -> str:
        if attempt.status is None and not self._format.takes_unevaluated:
            return UNEVALUATED
        if not self._format.takes_promptless and not attempt.completion.prompt:
            return "no prompt"
        sha, run = problem.sha if problem else "", attempt.key.run
        if not self.splits.is_known(attempt.key.problem, sha):
            source = self._archive.text(run, problem.source) if problem else None
            self.splits.learn(attempt.key.problem, sha, source)
        if self._settings.decontaminate and (not sha or self.splits.is_contaminated(sha)):
            return CONTAMINATED
        return ""
