"""The reward of an attempt, one number."""

from __future__ import annotations

from kernelwright.agent.datasets.policy import CHEATED, CORRECT, FAILED, MOST_SPEEDUP
from kernelwright.agent.records.score import fatal_rules, is_cheat
from kernelwright.agent.records.score_policy import exclusion_reason
from kernelwright.evaluator import Evaluation, Status


def reward(status: Status | None, fatal: tuple[str, ...], low: float | None) -> float:
    """Return -1 for a cheat, 0 for any other failure, else 0.3 plus the speedup, at most 10.

    The speedup is the lower end of its interval, so that a lucky measurement earns nothing; a correct kernel
    that was not timed earns 0.3.
    """
    if status is None:
        return FAILED
    if is_cheat(status, fatal):
        return CHEATED
    if status is not Status.PASSED:
        return FAILED
    return CORRECT + (0.0 if low is None else min(max(low, 0.0), MOST_SPEEDUP))


def reward_of(evaluation: Evaluation) -> float:
    """The reward of a whole evaluation."""
    measured = None if exclusion_reason(evaluation) else evaluation.measurement
    return reward(evaluation.status, fatal_rules(evaluation), measured.interval.low if measured else None)
