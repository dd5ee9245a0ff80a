"""Compares two evaluations of one kernel."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from kernelwright.agent.archive.policy import MACHINES_DIFFER
from kernelwright.agent.records.score_policy import exclusion_reason, policy_of, slower
from kernelwright.evaluator import Evaluation, Measurement, Record, Status

REMARKED: Final = ("torch", "sandbox", "evaluator", "rules")
"""Fields of a policy that a second evaluation may change; the others make two scores incomparable."""

UNSURE: Final = (Status.TIMED_OUT, Status.OUT_OF_MEMORY)
"""Failures that a busy machine can cause; any other stands at once."""


class ReproductionOutcome(StrEnum):
    """Outcome of a second evaluation."""

    REPRODUCED = "reproduced"
    DIFFERENT = "different"
    DAMAGED = "damaged"
    NOT_COMPARABLE = "not comparable"
    RESCORED = "rescored"
    SLOWER = "slower"
    FAILED = "failed"


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
    return _found(kernel, outcome, why, before, after)


def not_comparable(kernel: str, before: Evaluation, why: str) -> Reproduction:
    """Report a kernel that could not be evaluated again on this machine."""
    return _found(kernel, ReproductionOutcome.NOT_COMPARABLE, why, before)


def damaged(kernel: str, why: str, problem: str = "-") -> Reproduction:
    """Report a kernel whose files differ from those scored."""
    return Reproduction(
        kernel=kernel, problem=problem, outcome=ReproductionOutcome.DAMAGED, why=why, before=None
    )


def rescore(kernel: str, before: Evaluation, after: Evaluation) -> Reproduction:
    """Decide whether a new score, perhaps of another policy, takes the place of a saved one."""
    measured = after.measurement
    if after.status is not Status.PASSED:
        outcome, why = ReproductionOutcome.FAILED, f"{after.status}: {after.detail}".rstrip(": ")
    elif why := exclusion_reason(after):
        outcome, why = ReproductionOutcome.NOT_COMPARABLE, f"passed; {why}"
    elif why := slower(after):
        outcome = ReproductionOutcome.SLOWER
    else:
        then = f"; {before.speedup:.2f}× before" if before.speedup is not None else ""
        now = f"{measured.speedup:.2f}× over {measured.against}" if measured else "not timed"
        outcome, why = ReproductionOutcome.RESCORED, now + then
    return _found(kernel, outcome, why, before, after)


def needs_another(found: Reproduction) -> bool:
    """Return whether a second evaluation must agree before this is said."""
    after = found.after
    if after is None or found.outcome in (ReproductionOutcome.REPRODUCED, ReproductionOutcome.RESCORED):
        return False
    is_about_time = found.outcome is not ReproductionOutcome.NOT_COMPARABLE or bool(exclusion_reason(after))
    return after.status in UNSURE or (after.status is Status.PASSED and is_about_time)


def is_settled(found: Reproduction) -> bool:
    """Return whether nothing is left to do: what a busy machine may have caused is tried again."""
    after = found.after
    return after is not None and after.status not in UNSURE and not exclusion_reason(after)


def after_another(first: Reproduction, second: Reproduction) -> Reproduction:
    """Report the second of two evaluations, with what the first said."""
    return second.model_copy(update={"why": f"{second.why}; evaluated twice, the first time: {first.why}"})


def _found(
    kernel: str, outcome: ReproductionOutcome, why: str, before: Evaluation, after: Evaluation | None = None
) -> Reproduction:
    return Reproduction(
        kernel=kernel, problem=before.problem, outcome=outcome, why=why, before=before, after=after
    )


def _decide(before: Evaluation, after: Evaluation) -> tuple[ReproductionOutcome, str]:
    if before.problem_sha != after.problem_sha:
        return ReproductionOutcome.NOT_COMPARABLE, "the problem's source has changed"
    if after.status is not Status.PASSED:
        return ReproductionOutcome.DIFFERENT, f"{after.status}: {after.detail}".rstrip(": ")
    changed = policy_of(after).differences(policy_of(before))
    told = "".join(f"; {text}" for name, text in changed.items() if name in REMARKED)
    if why := exclusion_reason(after):
        return ReproductionOutcome.NOT_COMPARABLE, f"passed; {why}"
    if blocking := [text for name, text in changed.items() if name not in REMARKED]:
        return ReproductionOutcome.NOT_COMPARABLE, f"passed under another policy: {'; '.join(blocking)}{told}"
    outcome, why = _decide_speed(before, after)
    return outcome, f"{why}{told}"


def _decide_speed(before: Evaluation, after: Evaluation) -> tuple[ReproductionOutcome, str]:
    then, now = before.measurement, after.measurement
    if then is None or now is None:
        return ReproductionOutcome.REPRODUCED, "passed; its speed was not measured both times"
    lower, upper = sorted((then.interval, now.interval), key=lambda interval: interval.low)
    apart = upper.low / lower.high - 1.0
    allowed = (then.noise_floor or 0.0) + (now.noise_floor or 0.0) + MACHINES_DIFFER
    seen = f"{then.speedup:.2f}× then, {now.speedup:.2f}× now"
    if apart <= 0.0:
        return ReproductionOutcome.REPRODUCED, f"{seen}; the intervals meet"
    seen += f"; the intervals are {apart:.1%} apart, noise and another machine explain {allowed:.1%}"
    if apart <= allowed:
        return ReproductionOutcome.REPRODUCED, seen
    return ReproductionOutcome.DIFFERENT, f"{seen}; {_changed_times(then, now)}"


def _changed_times(then: Measurement, now: Measurement) -> str:
    """Show the times behind two speedups, so that a reader sees which of them changed."""
    times = [("the kernel", then.candidate, now.candidate)]
    shared = sorted(then.baselines.keys() & now.baselines.keys())
    times += [(name, then.baselines[name], now.baselines[name]) for name in shared]
    return ", ".join(f"{name} {a.median_ms:.4g} ms then, {b.median_ms:.4g} ms now" for name, a, b in times)
