"""Reads an archive into a stage: which attempts may be used, which not and why, and of which problems."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.datasets.export_settings import Format, Settings, UnusableExport
from kernelwright.agent.datasets.select.attempt_facts import facts_of
from kernelwright.agent.datasets.select.attempt_stage import AttemptStage
from kernelwright.agent.datasets.select.filters import OF_ATTEMPTS, Names, refusal
from kernelwright.agent.datasets.select.splits import Problems, forbidden_sources
from kernelwright.agent.records.attempt_log import Attempt, ProblemUsed

UNJUDGED: Final = "not judged"
CONTAMINATED: Final = "decontamination"
DAMAGED: Final = "a text of it is missing or damaged"

_TAKE_UNJUDGED: Final = frozenset({Format.ATTEMPTS, Format.RL})


@dataclass(slots=True)
class Tally:
    """What became of every attempt: used, or left out for a reason."""

    seen: int = 0
    used: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    runs: list[str] = field(default_factory=list)
    """Runs that attempts were kept of."""


class Reader:
    """Reads every run once."""

    def __init__(self, archive: Archive, settings: Settings, stage: AttemptStage) -> None:
        """Get ready.

        Raises:
            UnusableExport: a folder to decontaminate against holds no problems.
        """
        self.tally = Tally()
        self.problems = Problems(
            test=settings.test, seed=settings.seed, forbidden=forbidden_sources(settings.decontaminate)
        )
        self._archive = archive
        self._settings = settings
        self._stage = stage

    def read(self) -> None:
        """Fill the stage.

        Raises:
            UnusableExport: a filter fits no attempt at all.
            ArchiveError: a line is damaged or newer than this program, and the archive does not pass it over.
        """
        names = Names()
        for run in self._archive.runs():
            known = self._archive.problems_used(run)
            for attempt in self._archive.attempts(run):
                self._stage.observe(attempt)
                names.observe(attempt)
                try:
                    self._take(attempt, known.get(attempt.key.problem))
                except ArchiveError:
                    self.tally.left_out[DAMAGED] += 1
        self._stage.finish()
        if misspelt := names.misspelt(self._settings.filters):
            raise UnusableExport(misspelt)

    def _take(self, attempt: Attempt, problem: ProblemUsed | None) -> None:
        tally = self.tally
        tally.seen += 1
        refused = refusal(attempt, self._settings.filters)
        is_turn = self._settings.format is Format.TRAJECTORIES and refused in OF_ATTEMPTS
        reason = f"filter: {refused}" if refused and not is_turn else self._unfit(attempt, problem)
        if reason:
            tally.left_out[reason] += 1
            return
        facts = facts_of(
            self._archive,
            attempt,
            ordinal=tally.seen,
            problem_sha=problem.sha if problem else "",
            is_wanted=not refused,
        )
        self._stage.add(facts, attempt)
        if not tally.runs or tally.runs[-1] != attempt.key.run:
            tally.runs.append(attempt.key.run)

    def _unfit(self, attempt: Attempt, problem: ProblemUsed | None) -> str:
        if attempt.status is None and self._settings.format not in _TAKE_UNJUDGED:
            return UNJUDGED
        if self._settings.format is not Format.ATTEMPTS and not attempt.completion.prompt:
            return "no prompt"
        sha, run = problem.sha if problem else "", attempt.key.run
        if not self.problems.is_known(attempt.key.problem, sha):
            source = self._archive.text(run, problem.source) if problem else None
            self.problems.learn(attempt.key.problem, sha, source)
        if self._settings.decontaminate and (not sha or self.problems.is_contaminated(sha)):
            return CONTAMINATED
        return ""
