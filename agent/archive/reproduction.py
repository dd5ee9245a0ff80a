"""Compares two evaluations of one kernel."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from kernelwright.evaluator import Evaluation, Record, Status

SAME: Final = ("device", "passes", "shapes", "dtype", "math")
"""Policy fields that two scores must share to be compared; devices by kind, not by number."""


class ReproductionOutcome(StrEnum):
    """Outcome of a second evaluation."""

    REPRODUCED = "reproduced"
    DIFFERENT = "different"
    DAMAGED = "damaged"
    NOT_COMPARABLE = "not comparable"


class Reproduction(Record):
    """Comparison of a kernel's saved score with a new one."""

    kernel: str
    problem: str
    outcome: ReproductionOutcome
    why: str
    before: Evaluation | None
    """None if its score cannot be read."""
    after: Evaluation | None = None
    """None if it could not be evaluated again."""


def compare(kernel: str, before: Evaluation, after: Evaluation) -> Reproduction:
    """Compare a saved score with a new one of the same kernel."""
    outcome, why = _decide(before, after)
    if before.evaluator_sha and before.evaluator_sha != after.evaluator_sha:
        why += "; the evaluator has changed since"
    return Reproduction(
        kernel=kernel, problem=before.problem, outcome=outcome, why=why, before=before, after=after
    )


def not_comparable(kernel: str, before: Evaluation, why: str) -> Reproduction:
    """Report a kernel that could not be evaluated again on this machine."""
    return Reproduction(
        kernel=kernel,
        problem=before.problem,
        outcome=ReproductionOutcome.NOT_COMPARABLE,
        why=why,
        before=before,
    )


def damaged(kernel: str, why: str, problem: str = "-") -> Reproduction:
    """Report a kernel whose files differ from those scored."""
    return Reproduction(
        kernel=kernel, problem=problem, outcome=ReproductionOutcome.DAMAGED, why=why, before=None
    )


def _decide(before: Evaluation, after: Evaluation) -> tuple[ReproductionOutcome, str]:
    if before.problem_sha != after.problem_sha:
        return ReproductionOutcome.NOT_COMPARABLE, "the problem's source has changed"
    if after.status is not Status.PASSED:
        return ReproductionOutcome.DIFFERENT, f"{after.status}: {after.detail}".rstrip(": ")
    then, now = before.environment, after.environment
    if then is None or now is None or then.device_name != now.device_name:
        there = then.device_name if then else "an unknown device"
        here = now.device_name if now else "an unknown device"
        return ReproductionOutcome.NOT_COMPARABLE, f"passed; was measured on {there}, this is {here}"
    changed = [name for name in SAME if _policy(before, name) != _policy(after, name)]
    if changed:
        return ReproductionOutcome.NOT_COMPARABLE, f"passed under another policy: {', '.join(changed)}"
    return _decide_speed(before, after)


def _decide_speed(before: Evaluation, after: Evaluation) -> tuple[ReproductionOutcome, str]:
    then, now = before.measurement, after.measurement
    if then is None or now is None:
        return ReproductionOutcome.REPRODUCED, "passed; its speed was not measured both times"
    if then.against != now.against and now.against not in then.baselines:
        return (
            ReproductionOutcome.NOT_COMPARABLE,
            f"passed; speedup was against {then.against}, now {now.against}",
        )
    slack = (then.noise_floor or 0.0) + (now.noise_floor or 0.0)
    apart = max(now.interval.low - then.interval.high, then.interval.low - now.interval.high)
    seen = f"{then.speedup:.2f}× then, {now.speedup:.2f}× now"
    if apart <= slack:
        return ReproductionOutcome.REPRODUCED, f"{seen}; the intervals meet"
    return (
        ReproductionOutcome.DIFFERENT,
        f"{seen}; the intervals are {apart:.2f} apart, noise explains {slack:.2f}",
    )


def _policy(evaluation: Evaluation, name: str) -> str:
    value = str(getattr(evaluation.config, name))
    return value.partition(":")[0] if name == "device" else value
