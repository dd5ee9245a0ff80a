"""The part of an evaluation that a log line holds: its policy, its result, and evidence that views need."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from kernelwright.agent.records.score_policy import ScorePolicy, exclusion_reason, policy_of
from kernelwright.evaluator import Evaluation, Stage, Status

DETAIL_CHARACTERS: Final = 300
"""Characters of an evaluation's detail that its log line holds."""

CONTRACT_RULES: Final = frozenset({"contract", "empty", "size", "syntax"})
"""Screening rules that reject broken code; every other rule rejects a cheat."""

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


class Score(ScorePolicy):
    """Fields of an evaluation that views need; the whole evaluation is stored beside the log."""

    status: Status
    stage: Stage
    detail: str = ""
    problem_sha: str
    candidate_sha: str
    speedup: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    low: float | None = Field(default=None, ge=0)
    high: float | None = Field(default=None, ge=0)
    """95 % interval of the speedup."""
    against: str | None = None
    candidate_ms: float | None = None
    track: str | None = None
    speed_of_light: float | None = None
    sanitized: bool = False
    settled: bool = False
    """True where sanitizers ran, or had nothing to run on."""
    contended: bool = False
    """True if other work disturbed the measurement."""
    unfit: str = ""
    """The reason why the speedup is shown, but neither ranked nor compared; empty if there is none."""
    flaws: tuple[str, ...] = ()
    """Flaws of the problem that its check found."""
    fatal: tuple[str, ...] = ()
    """Screening rules that rejected it."""
    seconds: float = 0.0
    """Wall time of all stages."""
    cuda: str | None = None
    driver: str | None = None
    evaluator_sha: str | None = None

    @property
    def is_cheat(self) -> bool:
        """True for a candidate refused as a cheat, not as wrong or broken."""
        return is_cheat(self.status, self.fatal)

    @property
    def why_unfit(self) -> str:
        """The reason why the speedup is neither ranked nor compared; empty if there is none."""
        return self.unfit or ("contended" if self.contended else "")

    @property
    def is_lasting(self) -> bool:
        """True where the status stays with the source."""
        return self.status in LASTING or self.is_cheat

    @classmethod
    def of(cls, evaluation: Evaluation) -> Score:
        measured, machine = evaluation.measurement, evaluation.environment
        sanitization = evaluation.sanitization
        return cls(
            **dict(policy_of(evaluation)),
            status=evaluation.status,
            stage=evaluation.stage,
            detail=evaluation.detail[:DETAIL_CHARACTERS],
            problem_sha=evaluation.problem_sha,
            candidate_sha=evaluation.candidate_sha,
            speedup=evaluation.speedup,
            low=measured.interval.low if measured else None,
            high=measured.interval.high if measured else None,
            against=measured.against if measured else None,
            candidate_ms=measured.candidate.median_ms if measured else None,
            track=evaluation.attribution.track if evaluation.attribution else None,
            speed_of_light=_share_of_roofline(evaluation),
            sanitized=sanitization.ran if sanitization else False,
            settled=sanitization.settled if sanitization else False,
            contended=measured.contended if measured else False,
            unfit=exclusion_reason(evaluation),
            flaws=evaluation.problem_flaws,
            fatal=fatal_rules(evaluation),
            seconds=sum(evaluation.stage_seconds.values()),
            cuda=(machine.cuda or None) if machine else None,
            driver=(machine.driver or None) if machine else None,
            evaluator_sha=evaluation.evaluator_sha or None,
        )


def _share_of_roofline(evaluation: Evaluation) -> float | None:
    # The limit of work that a kernel may skip, or has skipped, is none; barely beyond 1 is noise.
    limits = evaluation.plausibility
    if limits is None or limits.speed_of_light is None or limits.dense or limits.is_beaten:
        return None
    return min(limits.speed_of_light, 1.0)


def fatal_rules(evaluation: Evaluation) -> tuple[str, ...]:
    """The screening rules that rejected a candidate, each once."""
    return tuple(dict.fromkeys(finding.rule for finding in evaluation.findings if finding.fatal))


def is_cheat(status: Status, fatal: tuple[str, ...]) -> bool:
    """Return whether a candidate was refused as a cheat, not as wrong or broken."""
    return status is Status.TAMPERED or (status is Status.REJECTED and not CONTRACT_RULES.issuperset(fatal))
