"""What a run's log already holds: which attempts, where their lines begin, and what they cost."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from agent.budgets import Spent
from agent.run import (
    AnyLine,
    AssignmentFinished,
    CompletionRecorded,
    EvaluationRecorded,
    KernelKept,
    RunResumed,
    RunStarted,
)

Assignment = tuple[str, str, str]
"""Problem id, backend, model."""


class Index:
    """Fed every line in order, it answers without reading the log again. A few hundred bytes an attempt."""

    def __init__(self) -> None:
        self.completions: dict[str, int] = {}
        """Attempt id to the offset of its completion."""
        self.evaluations: dict[str, int] = {}
        """Attempt id to the offset of its latest evaluation."""
        self.finished: set[Assignment] = set()
        self.kept: set[str] = set()
        """Attempts whose kernels were kept."""
        self._judged: dict[tuple[str, str], str] = {}
        self._attempts = 0
        self._tokens = 0
        self._cost_usd = Decimal(0)
        self._earlier_s = 0.0
        self._session_began = ""
        self._last = ""

    def observe(self, line: AnyLine, offset: int) -> None:
        """Take one more line into account."""
        match line:
            case CompletionRecorded():
                self.completions[line.attempt] = offset
                self._attempts += 1
                self._tokens += line.usage.prompt_tokens + line.usage.completion_tokens
                if line.cost_usd is not None:
                    self._cost_usd += Decimal(repr(line.cost_usd))
            case EvaluationRecorded():
                self.evaluations[line.attempt] = offset
                if line.reused_from is None and line.score.candidate_sha:
                    self._judged[line.score.problem_sha, line.score.candidate_sha] = line.attempt
            case AssignmentFinished():
                self.finished.add((line.problem, line.backend, line.model))
            case KernelKept():
                self.kept.add(line.attempt)
            case RunStarted() | RunResumed():
                self._earlier_s += self._session_s()
                self._session_began = line.at
            case _:
                pass
        self._last = line.at

    def judged(self, problem_sha: str, candidate_sha: str) -> str | None:
        """The attempt whose judging answered for this candidate on this problem, if any did."""
        return self._judged.get((problem_sha, candidate_sha))

    def spent(self) -> Spent:
        """Totals of the whole run so far; seconds count only while a process worked on it."""
        return Spent(
            attempts=self._attempts,
            tokens=self._tokens,
            cost_usd=self._cost_usd,
            seconds=self._earlier_s + self._session_s(),
        )

    def _session_s(self) -> float:
        if not self._session_began:
            return 0.0
        began, last = datetime.fromisoformat(self._session_began), datetime.fromisoformat(self._last)
        return max(0.0, (last - began).total_seconds())
