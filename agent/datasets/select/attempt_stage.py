"""The attempts of an export: taken in the archive's order, read problem by problem.

Their lines are held compressed, about a kilobyte an attempt; the texts stay in the archive.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum

from kernelwright.agent.records.attempt_log import Attempt, CompletionRecorded, EvaluationRecorded
from kernelwright.agent.records.attempt_view import AttemptView, counted, view_of
from kernelwright.agent.records.score_policy import ScorePolicy


class Doubt(StrEnum):
    """A reason not to use a pass as an example."""

    NONE = ""
    UNSANITIZED = "not sanitized where the tools exist"
    FLAWED = "its problem is flawed"
    REFUTED = "the same source was convicted at another time"
    SLOWER = "slower than the baseline"
    UNFIT = "its measurement was disturbed or incomplete"


@dataclass(frozen=True, slots=True)
class _Staged:
    completion: bytes
    evaluation: bytes | None
    problem_sha: str
    is_wanted: bool


class AttemptStage:
    """The attempts to use, and what all attempts say about them."""

    def __init__(self, *, takes_slower: bool = False) -> None:
        """With `takes_slower` a pass that is slower than the baseline is no doubt."""
        self.licenses: Counter[str] = Counter()
        """Attempts by licence; an empty name for those that state none."""
        self._takes_slower = takes_slower
        self._staged: dict[str, _Staged] = {}
        self._problems: defaultdict[str, list[str]] = defaultdict(list)
        """Ids of the attempts of each problem."""
        self._policies: Counter[ScorePolicy] = Counter()
        self._refuted: set[tuple[str, str]] = set()
        """Hashes of problem and candidate."""
        self._sanitizing: set[str | None] = set()
        """Hardware on which the sanitizers work."""

    def observe(self, attempt: Attempt) -> None:
        """Remember the facts of any attempt, used or not, that cast doubt on others."""
        if attempt.evaluation is None:
            return
        score = attempt.evaluation.score
        if score.is_lasting and attempt.completion.code is not None:
            self._refuted.add((score.problem_sha, score.candidate_sha))
        if score.sanitized and score.hardware:
            self._sanitizing.add(score.hardware)

    def add(self, attempt: Attempt, *, problem_sha: str, is_wanted: bool) -> bool:
        """Add an attempt to use; False where one of its id is there already.

        An empty `problem_sha` means the one of its evaluation.
        """
        if attempt.id in self._staged:
            return False
        evaluation = attempt.evaluation
        packed = _pack(attempt.completion), _pack(evaluation) if evaluation else None
        self._staged[attempt.id] = _Staged(*packed, problem_sha, is_wanted)
        self._problems[attempt.key.problem].append(attempt.id)
        self.licenses[attempt.completion.license or ""] += 1
        if evaluation is not None and evaluation.score.hardware is not None:
            self._policies[evaluation.score.policy] += 1
        return True

    def problems(self) -> list[str]:
        return sorted(self._problems)

    def views(self, problem: str) -> list[AttemptView]:
        """A problem's attempts, in the archive's order, each with the score that counts for its candidate."""
        found = []
        for name in self._problems[problem]:
            staged, view = self._staged[name], view_of(self._attempt(name))
            sha = staged.problem_sha or view.problem_sha
            found.append(replace(view, problem_sha=sha, is_wanted=staged.is_wanted))
        return counted(found)

    def attempt(self, view: AttemptView) -> Attempt:
        """The whole attempt, with the score that counts."""
        own = self._attempt(view.attempt)
        if not view.counts or own.evaluation is None:
            return own
        other = self._attempt(view.counts).evaluation
        tools = {"sanitized": view.sanitized, "settled": view.settled}
        score = (other or own.evaluation).score.model_copy(update=tools)
        return replace(own, evaluation=own.evaluation.model_copy(update={"score": score}))

    def policies(self) -> dict[str, int]:
        """Attempts that reached a device, by the hash and the words of their policy."""
        return {f"{policy.id}: {policy}": count for policy, count in self._policies.items()}

    def doubt(self, view: AttemptView) -> Doubt:
        """The reason not to use a pass as an example; `NONE` for a failure."""
        if not view.passed:
            return Doubt.NONE
        if view.flaws:
            return Doubt.FLAWED
        if (view.problem_sha, view.candidate) in self._refuted:
            return Doubt.REFUTED
        if not view.settled and view.policy.hardware in self._sanitizing:
            return Doubt.UNSANITIZED
        if view.unfit:
            return Doubt.UNFIT
        return Doubt.SLOWER if view.is_slower and not self._takes_slower else Doubt.NONE

    def _attempt(self, name: str) -> Attempt:
        staged = self._staged[name]
        evaluation = staged.evaluation and zlib.decompress(staged.evaluation)
        return Attempt(
            completion=CompletionRecorded.model_validate_json(zlib.decompress(staged.completion)),
            evaluation=EvaluationRecorded.model_validate_json(evaluation) if evaluation else None,
        )


def _pack(line: CompletionRecorded | EvaluationRecorded) -> bytes:
    return zlib.compress(line.model_dump_json().encode(), 1)
