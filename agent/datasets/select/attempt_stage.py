"""A temporary database of attempts: written in the archive's order, read problem by problem.

It is on the disk, so that memory holds the attempts of one problem at a time.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final

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


_SCHEMA: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16384;
PRAGMA temp_store = FILE;
CREATE TABLE attempts (attempt PRIMARY KEY, problem, problem_sha, is_wanted, license, completion, evaluation);
CREATE TABLE refuted (problem_sha, candidate, PRIMARY KEY (problem_sha, candidate));
CREATE TABLE sanitizing (hardware PRIMARY KEY);
"""


class AttemptStage:
    """A file of attempts, which `close` removes."""

    def __init__(self, path: Path, *, takes_slower: bool = False) -> None:
        """Create the file; with `takes_slower` a pass that is slower than the baseline is no doubt."""
        self._path = path
        self._policies: Counter[ScorePolicy] = Counter()
        self._takes_slower = takes_slower
        path.touch(exist_ok=False)
        self._base = sqlite3.connect(path)
        self._base.executescript(_SCHEMA)

    def observe(self, attempt: Attempt) -> None:
        """Remember the facts of any attempt, used or not, that cast doubt on others."""
        if attempt.evaluation is None:
            return
        score = attempt.evaluation.score
        if score.is_lasting and attempt.completion.code is not None:
            row = (score.problem_sha, score.candidate_sha)
            self._base.execute("INSERT OR IGNORE INTO refuted VALUES (?, ?)", row)
        if score.sanitized and score.hardware:
            self._base.execute("INSERT OR IGNORE INTO sanitizing VALUES (?)", (score.hardware,))

    def add(self, attempt: Attempt, *, problem_sha: str, is_wanted: bool) -> bool:
        """Add an attempt to use; False where one of its id is there already.

        An empty `problem_sha` means the one of its evaluation.
        """
        evaluation = attempt.evaluation
        packed = _pack(attempt.completion), _pack(evaluation) if evaluation else None
        named = attempt.id, attempt.key.problem, problem_sha, is_wanted, attempt.completion.license or ""
        row = "INSERT OR IGNORE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?)"
        is_new = self._base.execute(row, (*named, *packed)).rowcount > 0
        if is_new and evaluation is not None and evaluation.score.hardware is not None:
            self._policies[evaluation.score.policy] += 1
        return is_new

    def finish(self) -> None:
        """Index the rows."""
        self._base.execute("CREATE INDEX by_problem ON attempts (problem)")
        self._base.commit()

    def problems(self) -> list[str]:
        """Ids of the problems of all attempts."""
        query = "SELECT DISTINCT problem FROM attempts ORDER BY problem"
        return [problem for (problem,) in self._base.execute(query)]

    def views(self, problem: str) -> list[AttemptView]:
        """A problem's attempts, in the archive's order, each with the score that counts for its candidate."""
        query = (
            "SELECT completion, evaluation, problem_sha, is_wanted FROM attempts "
            "WHERE problem = ? ORDER BY rowid"
        )
        found = []
        for completion, evaluation, sha, is_wanted in self._base.execute(query, (problem,)):
            view = view_of(_unpack(completion, evaluation))
            found.append(replace(view, problem_sha=sha or view.problem_sha, is_wanted=bool(is_wanted)))
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

    def _attempt(self, name: str) -> Attempt:
        query = "SELECT completion, evaluation FROM attempts WHERE attempt = ?"
        return _unpack(*self._base.execute(query, (name,)).fetchone())

    def licenses(self) -> Counter[str]:
        """Attempts by licence; an empty name for those that state none."""
        query = "SELECT license, COUNT(*) FROM attempts GROUP BY license"
        return Counter(dict(self._base.execute(query)))

    def policies(self) -> dict[str, int]:
        """Attempts that reached a device, by the hash and the words of their policy."""
        return {f"{policy.id}: {policy}": count for policy, count in self._policies.items()}

    def doubt(self, view: AttemptView) -> Doubt:
        """The reason not to use a pass as an example; `NONE` for a failure."""
        if not view.passed:
            return Doubt.NONE
        if view.flaws:
            return Doubt.FLAWED
        refuted = "SELECT 1 FROM refuted WHERE problem_sha = ? AND candidate = ?"
        if self._has(refuted, view.problem_sha, view.candidate):
            return Doubt.REFUTED
        sanitizing = "SELECT 1 FROM sanitizing WHERE hardware = ?"
        if not view.settled and self._has(sanitizing, view.policy.hardware or ""):
            return Doubt.UNSANITIZED
        if view.unfit:
            return Doubt.UNFIT
        return Doubt.SLOWER if view.is_slower and not self._takes_slower else Doubt.NONE

    def close(self) -> None:
        """Remove the file."""
        self._base.close()
        self._path.unlink(missing_ok=True)

    def _has(self, query: str, *values: str) -> bool:
        return self._base.execute(query, values).fetchone() is not None


def _pack(line: CompletionRecorded | EvaluationRecorded) -> bytes:
    return zlib.compress(line.model_dump_json().encode(), 1)


def _unpack(completion: bytes, evaluation: bytes | None) -> Attempt:
    return Attempt(
        completion=CompletionRecorded.model_validate_json(zlib.decompress(completion)),
        evaluation=EvaluationRecorded.model_validate_json(zlib.decompress(evaluation))
        if evaluation
        else None,
    )
