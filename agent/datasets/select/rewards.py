"""What an attempt is worth to a learner, as one number."""

from __future__ import annotations

from typing import Final

from kernelwright.agent.leaderboard.rows import is_cheat
from kernelwright.evaluator import Evaluation, Status

CHEATED: Final = -1.0
FAILED: Final = 0.0
RIGHT: Final = 0.3
"""For being right; the speedup is added."""
MOST_SPEEDUP: Final = 10.0
"""Beyond this a speedup adds nothing: what is faster still is rarely honest and never typical."""


def reward(status: Status | None, fatal: tuple[str, ...], low: float | None) -> float:
    """-1 for deceiving, 0 for any other failure, 0.3 for being right plus the speedup, at most 10.

    The speedup is the lower end of its interval, so that a lucky measurement earns nothing; a right kernel
    that was not timed earns 0.3.
    """
    if status is None:
        return FAILED
    if is_cheat(status, fatal):
        return CHEATED
    if status is not Status.PASSED:
        return FAILED
    return RIGHT + (0.0 if low is None else min(max(low, 0.0), MOST_SPEEDUP))


def reward_of(evaluation: Evaluation) -> float:
    """The same, of a whole evaluation."""
    fatal = tuple(finding.rule for finding in evaluation.findings if finding.fatal)
    measured = evaluation.measurement
    return reward(evaluation.status, fatal, measured.interval.low if measured else None)
