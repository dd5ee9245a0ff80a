"""Order of attempts by merit as a starting point."""

from __future__ import annotations

from typing import Final

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.evaluator import Stage, Status

_STAGES: Final = tuple(Stage)


def worth(attempt: Attempt) -> tuple[bool, float, bool, int]:
    """Return the sort key of an attempt: correct ones by speedup, then those with code by the stage reached.

    A speedup that may not be compared counts as none. A candidate that cheats ranks like a rejected one.
    """
    if attempt.evaluation is None:
        return False, 0.0, False, -1
    score = attempt.evaluation.score
    has_code = attempt.completion.code is not None
    stage = Stage.SCREEN if score.status is Status.TAMPERED else score.stage
    return attempt.passed, attempt.speedup or 0.0, has_code, _STAGES.index(stage)


def best_of(attempts: list[Attempt]) -> Attempt | None:
    """Return the best attempt, the earliest among equals; None if there is none."""
    return max(attempts, key=worth, default=None)
