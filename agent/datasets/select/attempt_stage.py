"""A temporary database of attempts: written in the archive's order, read problem by problem.

It is on the disk, so that memory holds the facts of one problem at a time.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter
from dataclasses import astuple, fields
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kernelwright.agent.datasets.select.attempt_facts import AttemptFacts, Doubt, is_lasting
from kernelwright.agent.records.attempt_log import Attempt, CompletionRecorded, EvaluationRecorded
from kernelwright.evaluator import Status

_COLUMNS: Final = tuple(field.name for field in fields(AttemptFacts))
_FLAGS: Final = ("is_cheat", "is_sanitized", "is_flawed", "is_wanted")


class AttemptStage:
    """A context manager that removes the file at its end."""

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            OSError: the folder cannot be written.
        """
        self._path = path
        path.touch(exist_ok=False)
        self._base = sqlite3.connect(path)
        self._base.execute("PRAGMA journal_mode = OFF")
        self._base.execute("PRAGMA synchronous = OFF")
        self._base.execute("PRAGMA cache_size = -16384")
        self._base.execute("PRAGMA temp_store = FILE")
        self._base.execute(f"CREATE TABLE facts ({', '.join(_COLUMNS)}, PRIMARY KEY (ordinal))")
        self._base.execute(
            "CREATE TABLE attempts (ordinal INTEGER PRIMARY KEY, license, completion, evaluation)"
        )
        self._base.execute(
            "CREATE TABLE convicted (problem_sha, candidate, PRIMARY KEY (problem_sha, candidate))"
        )
        self._base.execute("CREATE TABLE sanitizing (hardware PRIMARY KEY)")

    def observe(self, attempt: Attempt) -> None:
        """Remember the facts of any attempt, used or not, that cast doubt on others."""
        if attempt.evaluation is None:
            return
        score = attempt.evaluation.score
        if is_lasting(score) and attempt.completion.code is not None:
            row = (score.problem_sha, score.candidate_sha)
            self._base.execute("INSERT OR IGNORE INTO convicted VALUES (?, ?)", row)
        if score.sanitized and score.hardware:
            self._base.execute("INSERT OR IGNORE INTO sanitizing VALUES (?)", (score.hardware,))

    def add(self, facts: AttemptFacts, attempt: Attempt) -> None:
        """Add an attempt to use."""
        marks = ", ".join("?" * len(_COLUMNS))
        self._base.execute(f"INSERT INTO facts VALUES ({marks})", astuple(facts))
        evaluation = attempt.evaluation
        packed = _pack(attempt.completion), _pack(evaluation) if evaluation else None
        row = (facts.ordinal, attempt.completion.license or "", *packed)
        self._base.execute("INSERT INTO attempts VALUES (?, ?, ?, ?)", row)

    def finish(self) -> None:
        """Index the rows."""
        self._base.execute("CREATE INDEX by_problem ON facts (problem, ordinal)")
        self._base.commit()

    def problems(self) -> list[str]:
        """Ids of the problems of all attempts."""
        return [row[0] for row in self._base.execute("SELECT DISTINCT problem FROM facts ORDER BY problem")]

    def facts(self, problem: str) -> list[AttemptFacts]:
        """A problem's attempts, in the archive's order."""
        query = f"SELECT {', '.join(_COLUMNS)} FROM facts WHERE problem = ? ORDER BY ordinal"
        return [_unpack_facts(row) for row in self._base.execute(query, (problem,))]

    def attempt(self, ordinal: int) -> Attempt:
        """The whole attempt."""
        query = "SELECT completion, evaluation FROM attempts WHERE ordinal = ?"
        completion, evaluation = self._base.execute(query, (ordinal,)).fetchone()
        return Attempt(
            completion=CompletionRecorded.model_validate_json(zlib.decompress(completion)),
            evaluation=EvaluationRecorded.model_validate_json(zlib.decompress(evaluation))
            if evaluation
            else None,
        )

    def licenses(self) -> Counter[str]:
        """Attempts by licence; an empty name for those that state none."""
        query = "SELECT license, COUNT(*) FROM attempts GROUP BY license"
        return Counter(dict(self._base.execute(query)))

    def doubt(self, facts: AttemptFacts) -> Doubt:
        """The reason not to use a pass as an example; `NONE` for a failure."""
        if not facts.passed:
            return Doubt.NONE
        if facts.is_flawed:
            return Doubt.FLAWED
        convicted = "SELECT 1 FROM convicted WHERE problem_sha = ? AND candidate = ?"
        if self._has(convicted, facts.problem_sha, facts.candidate):
            return Doubt.CONVICTED
        if not facts.is_sanitized and self._has(
            "SELECT 1 FROM sanitizing WHERE hardware = ?", facts.hardware
        ):
            return Doubt.UNSANITIZED
        return Doubt.NONE

    def close(self) -> None:
        """Remove the file."""
        self._base.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _has(self, query: str, *values: str) -> bool:
        return self._base.execute(query, values).fetchone() is not None


def _pack(line: CompletionRecorded | EvaluationRecorded) -> bytes:
    return zlib.compress(line.model_dump_json().encode(), 1)


def _unpack_facts(row: tuple[object, ...]) -> AttemptFacts:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["status"] = Status(str(values["status"])) if values["status"] else None
    for name in _FLAGS:
        values[name] = bool(values[name])
    return AttemptFacts(**values)  # type: ignore[arg-type]  # columns are the fields, in their order
