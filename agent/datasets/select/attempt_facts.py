"""The few fields of an attempt that an export needs while it selects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kernelwright.agent.archive import Archive
from kernelwright.agent.leaderboard.rows import is_cheat
from kernelwright.agent.records.attempt_log import Attempt, Score
from kernelwright.evaluator import Status, sha256_text

LASTING: Final = frozenset(
    {
        Status.TAMPERED,
        Status.IMPLAUSIBLE,
        Status.INPUT_MUTATED,
        Status.NONDETERMINISTIC,
        Status.MEMORY_ERROR,
        Status.RACE,
    }
)
"""Statuses that stay with a source: a pass at another time does not undo them."""


class Doubt(StrEnum):
    """A reason not to use a pass as an example."""

    NONE = ""
    UNSANITIZED = "not sanitized where the tools exist"
    FLAWED = "its problem is flawed"
    CONVICTED = "the same source was convicted at another time"


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """One attempt; its texts stay on the disk."""

    ordinal: int
    """Position in the archive; identifies the attempt in the stage."""
    run: str
    problem: str
    problem_sha: str
    backend: str
    model: str
    strategy: str
    sample: int
    turn: int
    status: Status | None
    is_cheat: bool
    hardware: str
    terms: str
    """Precision, types, shapes and passes of its evaluation."""
    against: str
    """The baseline behind its speedup."""
    low: float | None
    high: float | None
    prompt: str
    """Hash of the prompt; empty where there is none."""
    candidate: str
    """Hash of the candidate; empty where there is none."""
    is_sanitized: bool
    """True when the tools ran, or had nothing to run on."""
    is_flawed: bool
    is_wanted: bool = True
    """False for a turn that a filter refuses, included because its conversation may be wanted."""

    @property
    def passed(self) -> bool:
        """True for a correct candidate."""
        return self.status is Status.PASSED

    @property
    def failed(self) -> bool:
        """True for one that was evaluated and did not pass."""
        return self.status is not None and not self.passed

    @property
    def conversation(self) -> tuple[str, str, str, str, int]:
        """The fields that the turns of one conversation share, besides the problem."""
        return self.run, self.backend, self.model, self.strategy, self.sample


def is_lasting(score: Score) -> bool:
    """Return whether a status stays with its source."""
    return score.status in LASTING or is_cheat(score.status, score.fatal)


def facts_of(
    archive: Archive, attempt: Attempt, *, ordinal: int, problem_sha: str, is_wanted: bool
) -> AttemptFacts:
    """Reduce an attempt.

    Raises:
        ArchiveError: a text it names is missing or damaged.
    """
    key, line = attempt.key, attempt.completion
    score = attempt.evaluation.score if attempt.evaluation else None
    sanitized, flawed = _details(archive, attempt)
    return AttemptFacts(
        ordinal=ordinal,
        run=key.run,
        problem=key.problem,
        problem_sha=problem_sha or (score.problem_sha if score else ""),
        backend=key.backend,
        model=key.model,
        strategy=key.strategy,
        sample=key.sample,
        turn=key.turn,
        status=score.status if score else None,
        is_cheat=is_cheat(score.status, score.fatal) if score else False,
        hardware=(score.hardware or "") if score else "",
        terms="|".join((score.math, score.dtype, score.shapes or "", score.passes)) if score else "",
        against=(score.against or "") if score else "",
        low=score.low if score else None,
        high=score.high if score else None,
        prompt=_prompt(attempt),
        candidate=score.candidate_sha if score and line.code is not None else "",
        is_sanitized=sanitized,
        is_flawed=flawed,
        is_wanted=is_wanted,
    )


def _details(archive: Archive, attempt: Attempt) -> tuple[bool, bool]:
    """Return, of a pass, whether nothing is left to sanitize and whether the problem is flawed."""
    if not attempt.passed or attempt.evaluation is None:
        return False, False
    whole = json.loads(archive.text(attempt.key.run, attempt.evaluation.evaluation))
    report = whole.get("sanitization") or {}
    settled = bool(report.get("ran")) or (bool(report) and not report.get("needed", True))
    return settled, bool(whole.get("problem_flaws"))


def _prompt(attempt: Attempt) -> str:
    # Long messages are hashes in the log, so that its lines alone distinguish prompts.
    if not attempt.completion.prompt:
        return ""
    return sha256_text(json.dumps([message.model_dump() for message in attempt.completion.prompt]))[:32]
