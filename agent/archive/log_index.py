"""Index of a run's log: its attempts, the offsets of their lines, and their cost."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from kernelwright.agent.records.attempt_log import (
    AnyLine,
    AssignmentDone,
    CompletionRecorded,
    EvaluationRecorded,
    KernelKept,
    KernelRefused,
    RunResumed,
    RunStarted,
)
from kernelwright.agent.records.budgets import Budget, Cost
from kernelwright.agent.records.messages import Usage
from kernelwright.evaluator import Status

_COUNTED: Final = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens")


@dataclass(slots=True)
class IndexedAttempt:
    """The fields of an attempt that a run needs in memory."""

    problem: str
    completion: int
    """Offset of its completion's line."""
    evaluation: int | None = None
    """Offset of its latest evaluation's line."""
    passed: bool = False
    speedup: float | None = None
    kept: bool = False
    refused: bool = False
    """True if it passed but is not saved."""


class Index:
    """State folded from every line in order; a few hundred bytes an attempt."""

    def __init__(self) -> None:
        self.attempts: dict[str, IndexedAttempt] = {}
        self.finished: set[tuple[str, str, str, str]] = set()
        """Problem, backend, model and strategy of the finished assignments."""
        self.remembered = 0
        """Replies that came from the completion cache."""
        self.unpriced = 0
        """Replies of unknown cost."""
        self.bounds = Budget()
        """Limits that resumes of the run have set."""
        self._tokens: Counter[str] = Counter()
        """By field of `Usage`."""
        self._spent = Cost()
        self._earlier_s = 0.0
        self._session_began = ""
        self._last = ""

    def observe(self, line: AnyLine, offset: int) -> None:
        match line:
            case CompletionRecorded() if line.attempt in self.attempts:
                # Only a concatenation of two copies of a log repeats a reply. It was paid once.
                pass
            case CompletionRecorded():
                self.attempts[line.attempt] = IndexedAttempt(sys.intern(line.key.problem), offset)
                self._count(line)
            case EvaluationRecorded():
                seen = self.attempts[line.attempt]
                seen.evaluation = offset
                seen.passed = line.score.status is Status.PASSED
                seen.speedup = None if line.score.why_unfit else line.score.speedup
                if line.confirms:
                    seen.kept = seen.refused = False
            case AssignmentDone():
                self.finished.add((line.problem, line.backend, line.model, line.strategy))
            case KernelKept():
                self.attempts[line.attempt].kept = True
            case KernelRefused():
                self.attempts[line.attempt].refused = True
            case RunStarted() | RunResumed():
                self._earlier_s += self._session_s()
                self._session_began = line.at
                if isinstance(line, RunResumed):
                    self.bounds = self.bounds.with_limits(line.bounds)
        self._last = line.at

    def usage(self) -> Usage:
        return Usage.model_validate(self._tokens)

    def spent(self) -> Cost:
        """Return the totals of the run; seconds count only while a process worked on it."""
        return self._spent + Cost(seconds=self._earlier_s + self._session_s())

    def best(self) -> dict[str, float]:
        """Return the best speedup of each problem."""
        found: dict[str, float] = {}
        for seen in self.attempts.values():
            if seen.passed and seen.speedup is not None:
                found[seen.problem] = max(found.get(seen.problem, 0.0), seen.speedup)
        return found

    def _count(self, line: CompletionRecorded) -> None:
        self.remembered += line.cached
        self.unpriced += line.cost_usd is None
        self._spent += cost_of(line)
        for name in _COUNTED:
            self._tokens[name] += getattr(line.usage, name)

    def _session_s(self) -> float:
        if not self._session_began:
            return 0.0
        try:
            began, last = datetime.fromisoformat(self._session_began), datetime.fromisoformat(self._last)
            return max(0.0, (last - began).total_seconds())
        except (ValueError, TypeError):
            # A damaged time must not end the run.
            return 0.0


def cost_of(completion: CompletionRecorded) -> Cost:
    """Cost of one reply; an unknown price counts as 0."""
    usage, cost_usd = completion.usage, completion.cost_usd
    return Cost(
        attempts=1,
        tokens=usage.prompt_tokens + usage.completion_tokens,
        cost_usd=Decimal(0) if cost_usd is None else Decimal(repr(cost_usd)),
    )
