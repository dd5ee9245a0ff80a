"""Orders attempts by their worth as a starting point."""

from __future__ import annotations

from typing import Final

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.evaluator import Stage, Status

_STAGES: Final = tuple(Stage)


def worth(attempt: Attempt) -> tuple[bool, float, bool, int]:
    """Orders attempts: right ones by speedup, then those with code by how far they came.

    One that cheats comes no further than one that was rejected.
    """
    if attempt.evaluation is None:
        return False, 0.0, False, -1
    score = attempt.evaluation.score
    has_code = attempt.completion.code is not None
    stage = Stage.SCREEN if score.status is Status.TAMPERED else score.stage
    return attempt.passed, score.speedup or 0.0, has_code, _STAGES.index(stage)


def best_of(attempts: list[Attempt]) -> Attempt | None:
    """The best attempt, the earliest among equals; None of none."""
    return max(attempts, key=worth, default=None)
