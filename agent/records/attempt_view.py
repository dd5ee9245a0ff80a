"""One attempt as leaderboards and datasets see it: a few small fields, so that 100,000 fit in memory."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from kernelwright.agent.records.attempt_log import Attempt, EvaluationRecorded
from kernelwright.agent.records.score import LASTING
from kernelwright.agent.records.score_policy import ScorePolicy
from kernelwright.evaluator import Status, sha256_text


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One attempt; its texts stay on the disk."""

    attempt: str
    run: str
    problem: str
    problem_sha: str
    """Empty until it was evaluated."""
    backend: str
    model: str
    strategy: str
    sample: int
    turn: int
    policy: ScorePolicy
    status: Status | None
    """None until it was evaluated."""
    speedup: float | None = None
    """None for a failure; 1.0 for a correct kernel whose speed was not measured, or not to be compared."""
    low: float | None = None
    high: float | None = None
    """95 % interval of a speedup that can be compared."""
    track: str | None = None
    speed_of_light: float | None = None
    candidate: str = ""
    """Hash of the candidate; empty where there is none."""
    prompt: str = ""
    """Hash of the prompt; empty where there is none."""
    is_cheat: bool = False
    sanitized: bool = False
    settled: bool = False
    """True where sanitizers ran, or had nothing to run on."""
    is_doubted: bool = False
    """Correct, but not sanitized on hardware where the tools work."""
    unfit: str = ""
    """The reason why the measured speedup is not compared."""
    is_confirmed: bool = False
    """Measured again after it was the best of several."""
    evaluation: int = 0
    """Hash of the whole evaluation."""
    counts: str = ""
    """The attempt whose evaluation of the same candidate counts in place of its own; empty for its own."""
    flaws: tuple[str, ...] = ()
    """Flaws of the problem that vetting found."""
    fatal: tuple[str, ...] = ()
    """Screening rules that rejected it."""
    tokens: int = 0
    cost_usd: float | None = None
    reply: int = 0
    """Hash of the reply; where the endpoint names its responses, another response has another one."""
    is_wanted: bool = True
    """False for a turn that a filter refuses, included because its conversation may be wanted."""

    @property
    def ended(self) -> str:
        """The status as text; empty until it was evaluated."""
        return self.status.value if self.status else ""

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED

    @property
    def failed(self) -> bool:
        """True for one that was evaluated and did not pass."""
        return self.status is not None and not self.passed

    @property
    def is_slower(self) -> bool:
        """True where the whole interval lies below 1, so that a correct kernel is surely slower."""
        return self.passed and self.high is not None and self.high < 1.0

    @property
    def conversation(self) -> tuple[str, str, str, str, int]:
        """The fields that the turns of one conversation share, besides the problem."""
        return self.run, self.backend, self.model, self.strategy, self.sample


def view_of(attempt: Attempt) -> AttemptView:
    """Reduce an attempt; equal names and policies are one object."""
    key, line = attempt.key, attempt.completion
    asked = AttemptView(
        attempt=attempt.id,
        run=sys.intern(key.run),
        problem=sys.intern(key.problem),
        problem_sha="",
        backend=sys.intern(key.backend),
        model=sys.intern(key.model),
        strategy=sys.intern(key.strategy),
        sample=key.sample,
        turn=key.turn,
        policy=_one(ScorePolicy()),
        status=None,
        prompt=_prompt(attempt),
        tokens=line.usage.prompt_tokens + line.usage.completion_tokens,
        cost_usd=line.cost_usd,
        reply=hash((line.response_id, line.reply)),
    )
    return asked if attempt.evaluation is None else _evaluated(asked, attempt, attempt.evaluation)


def _evaluated(asked: AttemptView, attempt: Attempt, recorded: EvaluationRecorded) -> AttemptView:
    score = recorded.score
    passed = score.status is Status.PASSED
    is_fit = passed and not score.why_unfit
    return replace(
        asked,
        problem_sha=sys.intern(score.problem_sha),
        policy=_one(score.policy),
        status=score.status,
        speedup=(score.speedup or 1.0) if is_fit else 1.0 if passed else None,
        low=score.low if is_fit else None,
        high=score.high if is_fit else None,
        track=sys.intern(score.track) if score.track else None,
        speed_of_light=score.speed_of_light,
        candidate=score.candidate_sha if attempt.completion.code is not None else "",
        is_cheat=score.is_cheat,
        sanitized=score.sanitized,
        settled=score.settled or score.sanitized,
        unfit=score.why_unfit,
        is_confirmed=recorded.confirms,
        evaluation=hash(recorded.evaluation_sha),
        flaws=score.flaws,
        fatal=score.fatal,
    )


_MEASURED: Final = (
    *("status", "speedup", "low", "high", "track", "speed_of_light", "unfit", "flaws", "fatal", "is_cheat"),
    *("sanitized", "settled", "is_confirmed", "counts"),
)


def counted(views: list[AttemptView]) -> list[AttemptView]:
    """The same attempts, several evaluations of one candidate under one policy counting with the middle one.

    So neither measuring again until the number is good, nor a lucky moment, makes a kernel faster.
    """
    groups: defaultdict[tuple[object, ...], dict[int, AttemptView]] = defaultdict(dict)
    for view in views:
        if view.candidate:
            groups[_content(view)][view.evaluation] = view
    middles = {content: _middle(list(group.values())) for content, group in groups.items() if len(group) > 1}
    return [
        replace(view, **{name: getattr(middle, name) for name in _MEASURED})
        if (middle := middles.get(_content(view)))
        else view
        for view in views
    ]


def _content(view: AttemptView) -> tuple[object, ...]:
    return view.policy, view.problem_sha, view.candidate, view.backend


def _middle(group: list[AttemptView]) -> AttemptView:
    """A lasting failure, else the lower median of what was not disturbed; failures are below passes."""
    lasting = [view for view in group if view.is_cheat or view.status in LASTING]
    fit = lasting or [view for view in group if not view.unfit] or group
    order = sorted(fit, key=lambda view: (view.passed, view.speedup or 0.0, view.attempt))
    middle = order[(len(order) - 1) // 2]
    return replace(
        middle,
        sanitized=any(view.sanitized for view in group),
        settled=any(view.settled for view in group),
        is_confirmed=len(fit) > 1 or middle.is_confirmed,
        counts=middle.attempt,
    )


@lru_cache(maxsize=256)
def _one(policy: ScorePolicy) -> ScorePolicy:
    return policy


def _prompt(attempt: Attempt) -> str:
    # Long messages are hashes in the log, so that its lines alone distinguish prompts.
    if not attempt.completion.prompt:
        return ""
    return sha256_text(json.dumps([message.model_dump() for message in attempt.completion.prompt]))[:32]
