"""Stores every accepted evaluation in one SQLite file, synced before the client is told.

SQLite in WAL mode rather than a log of JSON lines: a commit is one synced append all the same, and it brings
an index over results, retention, and recovery from a kill in the middle of a write, so that memory holds only
queued and running evaluations. Usable from any thread.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

from kernelwright.agent.archive.private_lock import take_lock
from kernelwright.agent.evaluation.evaluation_site import EvaluationFailure
from kernelwright.agent.records.provenance import now
from kernelwright.agent.records.score_policy import exclusion_reason
from kernelwright.agent.records.strict_json import strict_json
from kernelwright.agent.service.submission import Content
from kernelwright.evaluator import (
    Candidate,
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    MachineError,
    Record,
    Status,
    problem_from_source,
)

VERSION: Final = 2
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS problem (
  sha TEXT NOT NULL, id TEXT NOT NULL, source TEXT NOT NULL, PRIMARY KEY (sha, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS evaluation (
  serial INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  round INTEGER NOT NULL, state TEXT NOT NULL,
  problem TEXT NOT NULL, problem_sha TEXT NOT NULL,
  backend TEXT NOT NULL, config TEXT NOT NULL, candidate TEXT,
  accepted_at TEXT NOT NULL, started_at TEXT, ended_at TEXT, ended_s REAL,
  starts INTEGER NOT NULL DEFAULT 0, failure TEXT, failure_kind TEXT, verdict TEXT,
  results TEXT NOT NULL DEFAULT '[]', is_limited INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS wanted (
  id TEXT NOT NULL, client TEXT NOT NULL, PRIMARY KEY (id, client)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS result (
  id TEXT NOT NULL, round INTEGER NOT NULL, ended_at TEXT NOT NULL, status TEXT NOT NULL,
  speedup REAL, low REAL, high REAL, counts INTEGER NOT NULL, verdict TEXT NOT NULL, PRIMARY KEY (id, round)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS unfinished ON evaluation (serial) WHERE state IN ('queued', 'running');
CREATE INDEX IF NOT EXISTS ended ON evaluation (ended_s) WHERE ended_s IS NOT NULL;
"""
_TOLD: Final = """
SELECT verdict FROM result WHERE id = :id ORDER BY counts DESC, status = 'PASSED', speedup, round
LIMIT 1 OFFSET (SELECT max((coalesce(sum(counts), 0) - 1) / 2, 0) FROM result WHERE id = :id)
"""
"""The lower median of a content's results that count, else any: what did not pass counts as slowest."""


class EvaluationState(StrEnum):
    """The state of an evaluation."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    """The machine or the evaluator failed, which is no result; a new submission tries again."""
    CANCELLED = "cancelled"


class StoredResult(Record):
    """One of the results of a content, in short."""

    round: int
    """Number of times the content had been queued."""
    ended_at: str
    evaluated_at: str = ""
    """The result's own time."""
    status: Status
    speedup: float | None
    low: float | None
    """Ends of the speedup's interval."""
    high: float | None
    counts: bool = True
    """False where other work disturbed the measurement, or it failed under limits below the operator's."""


class EvaluationHead(Record):
    """The fields of an evaluation that clients see as they are stored."""

    id: str
    """Content address: the same content is the same evaluation."""
    state: EvaluationState
    round: int
    """Number of times this content was queued."""
    problem: str
    backend: str
    accepted_at: str
    """UTC, ISO 8601, as all times here."""
    started_at: str | None
    ended_at: str | None
    results: tuple[StoredResult, ...]
    """Every result of this content, in order and in short; `fresh` adds one."""


class StoredEvaluation(EvaluationHead):
    """One evaluation; its fields are columns."""

    starts: int
    """Number of times this round was begun; more than once when the service ended during it."""
    failure: str | None
    failure_kind: str | None
    verdict: str | None
    """The `Evaluation` as JSON text: the lower median of the results."""

    @property
    def is_live(self) -> bool:
        """True while it is queued or running."""
        return self.state in (EvaluationState.QUEUED, EvaluationState.RUNNING)


_COLUMNS: Final = ", ".join(StoredEvaluation.model_fields)


class Store:
    """The only writer of a state folder; raises StoreError if the disk fails, and changes nothing then."""

    def __init__(self, folder: Path) -> None:
        """Open or create it; raises MachineError if it is in use, read-only, damaged or another version's."""
        self._guard = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = take_lock(folder / "lock")
        except BlockingIOError:
            raise MachineError(
                f"{folder} is in use by another service; end it, or choose another --state"
            ) from None
        except OSError as error:
            raise MachineError(f"cannot write the state folder {folder}: {error.strerror}") from None
        try:
            self._file = self._open(folder / "evaluations.sqlite")
        except sqlite3.Error as error:
            os.close(self._lock)
            raise MachineError(f"cannot use {folder / 'evaluations.sqlite'}: {error}") from None

    def find(self, evaluation: str) -> StoredEvaluation | None:
        """One evaluation; None if it was never accepted, or was pruned."""
        rows = self._read(f"SELECT {_COLUMNS} FROM evaluation WHERE id = ?", evaluation)
        return _entry(rows[0]) if rows else None

    def result(self, evaluation: str, number: int) -> str | None:
        """One result of a content, an `Evaluation` as JSON text, by its round; None if there is none."""
        rows = self._read("SELECT verdict FROM result WHERE id = ? AND round = ?", evaluation, number)
        return str(rows[0]["verdict"]) if rows else None

    def content(self, evaluation: str) -> Content | None:
        """The content to evaluate; None once it has ended."""
        rows = self._read(
            "SELECT e.problem, p.source, e.candidate, e.backend, e.config FROM evaluation e "
            "JOIN problem p ON p.sha = e.problem_sha AND p.id = e.problem "
            "WHERE e.id = ? AND e.candidate IS NOT NULL",
            evaluation,
        )
        if not rows:
            return None
        problem, source, candidate, backend, config = rows[0]
        return Content(
            problem=problem_from_source(source, problem),
            candidate=Candidate(source=candidate, backend=backend),
            config=EvaluationConfig.model_validate_json(config),
        )

    def enqueue(self, evaluation: str, content: Content, client: str) -> StoredEvaluation:
        """Accept a client's evaluation, for the first time or again; it is on the disk when this returns."""
        problem, candidate = content.problem, content.candidate
        with self._change() as file:
            file.execute(
                "INSERT OR IGNORE INTO problem VALUES (?, ?, ?)", (problem.sha, problem.id, problem.source)
            )
            # Replaced rather than updated, so that it goes to the end of the queue.
            row = file.execute(
                "DELETE FROM evaluation WHERE id = ? RETURNING round, results", (evaluation,)
            ).fetchone()
            found = file.execute(
                "INSERT INTO evaluation (id, round, state, problem, problem_sha, backend, config, candidate, "
                "accepted_at, results, is_limited) VALUES (?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?) "
                f"RETURNING {_COLUMNS}",
                (
                    evaluation,
                    (row[0] if row else 0) + 1,
                    problem.id,
                    problem.sha,
                    candidate.backend,
                    content.config.model_dump_json(),
                    candidate.source,
                    now(),
                    row[1] if row else "[]",
                    content.is_limited,
                ),
            ).fetchone()
            file.execute("INSERT INTO wanted VALUES (?, ?)", (evaluation, client))
        return _entry(found)

    def join(self, evaluation: str, client: str) -> None:
        """Note that another client wants a live evaluation."""
        with self._change() as file:
            file.execute("INSERT OR IGNORE INTO wanted VALUES (?, ?)", (evaluation, client))

    def leave(self, evaluation: str, client: str) -> int | None:
        """Note that a client withdraws from a live evaluation; return how many are left, or None."""
        with self._change() as file:
            gone = file.execute(
                "DELETE FROM wanted WHERE id = ? AND client = ? RETURNING 1", (evaluation, client)
            ).fetchone()
            (left,) = file.execute("SELECT count(*) FROM wanted WHERE id = ?", (evaluation,)).fetchone()
        return int(left) if gone else None

    def begin(self, evaluation: str) -> StoredEvaluation:
        """Mark a queued evaluation as running."""
        with self._change() as file:
            row = file.execute(
                "UPDATE evaluation SET state = 'running', started_at = ?, starts = starts + 1 "
                f"WHERE id = ? RETURNING {_COLUMNS}",
                (now(), evaluation),
            ).fetchone()
        return _entry(row)

    def put_back(self, evaluation: str) -> None:
        """Queue a running evaluation again, as if it had not been begun."""
        with self._change() as file:
            file.execute(
                "UPDATE evaluation SET state = 'queued', started_at = NULL, starts = starts - 1 "
                "WHERE id = ? AND state = 'running'",
                (evaluation,),
            )

    def end(self, ended: str, outcome: Evaluation | EvaluationFailure | None = None) -> StoredEvaluation:
        """Record the end of a live evaluation, cancelled without an outcome, and remove its candidate.

        A result is kept beside the earlier ones of this content, and their lower median is what is told, also
        after a cancellation or a failure of asking again.
        """
        with self._change() as file:
            results = _add_result(file, ended, outcome) if isinstance(outcome, Evaluation) else None
            (told,) = file.execute(_TOLD, {"id": ended}).fetchone() or (None,)
            failure = outcome if told is None and isinstance(outcome, EvaluationFailure) else None
            state = EvaluationState.FAILED if failure else EvaluationState.CANCELLED
            if told is not None:
                state = EvaluationState.FINISHED
            why, kind = (failure.message, failure.kind) if failure else (None, None)
            file.execute("DELETE FROM wanted WHERE id = ?", (ended,))
            row = file.execute(
                "UPDATE evaluation SET state = ?, verdict = ?, results = coalesce(?, results), failure = ?, "
                "failure_kind = ?, ended_at = ?, ended_s = ?, candidate = NULL WHERE id = ? "
                f"RETURNING {_COLUMNS}",
                (state.value, told, results, why, kind, now(), time.time(), ended),
            ).fetchone()
        return _entry(row)

    def unfinished(self) -> list[StoredEvaluation]:
        """Queued and running evaluations, in the order of acceptance."""
        rows = self._read(
            f"SELECT {_COLUMNS} FROM evaluation WHERE state IN ('queued', 'running') ORDER BY serial"
        )
        return [_entry(row) for row in rows]

    def prune(self, before_s: float) -> list[str]:
        """Remove unused problems, and evaluations that ended before a time since 1970; return their ids."""
        with self._change() as file:
            rows = file.execute(
                "DELETE FROM evaluation WHERE ended_s < ? RETURNING id", (before_s,)
            ).fetchall()
            file.execute("DELETE FROM result WHERE id NOT IN (SELECT id FROM evaluation)")
            file.execute(
                "DELETE FROM problem WHERE NOT EXISTS (SELECT 1 FROM evaluation e "
                "WHERE e.problem_sha = problem.sha AND e.problem = problem.id AND e.candidate IS NOT NULL)"
            )
        return [row[0] for row in rows]

    def close(self) -> None:
        """Close the file and release the folder."""
        with self._guard:
            self._file.close()
            os.close(self._lock)

    def _read(self, query: str, *values: object) -> list[sqlite3.Row]:
        with self._guard:
            return self._file.execute(query, values).fetchall()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._guard:
            try:
                with self._file:
                    self._file.execute("BEGIN IMMEDIATE")
                    yield self._file
            except sqlite3.Error as error:
                raise StoreError(f"cannot store an evaluation: {error}") from error

    def _open(self, path: Path) -> sqlite3.Connection:
        with ExitStack() as opened:
            file = opened.enter_context(
                closing(sqlite3.connect(path, check_same_thread=False, isolation_level=None))
            )
            file.row_factory = sqlite3.Row
            file.execute("PRAGMA journal_mode = WAL")
            # Every commit is synced: an accepted evaluation survives a power cut.
            file.execute("PRAGMA synchronous = FULL")
            version = file.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise sqlite3.DatabaseError(f"written by a newer kernelwright (schema {version}); upgrade it")
            if 0 < version < VERSION:
                raise sqlite3.DatabaseError(
                    f"written by an older kernelwright (schema {version}), whose results are not comparable; "
                    f"remove {path.parent}, or choose another --state"
                )
            file.executescript(_SCHEMA)
            file.execute(f"PRAGMA user_version = {VERSION}")
            path.chmod(0o600)
            opened.pop_all()
        return file


class StoreError(EvaluatorError):
    """The disk does not take a write."""


def _add_result(file: sqlite3.Connection, ended: str, evaluation: Evaluation) -> str:
    """Keep a result, and return all of this content in short, as JSON text."""
    number, is_limited = file.execute(
        "SELECT round, is_limited FROM evaluation WHERE id = ?", (ended,)
    ).fetchone()
    counts = not exclusion_reason(evaluation) and (evaluation.status is Status.PASSED or not is_limited)
    interval = evaluation.measurement.interval if evaluation.measurement else None
    ends = (interval.low, interval.high) if interval else (None, None)
    file.execute(
        "INSERT INTO result VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (ended, number, now(), evaluation.status, evaluation.speedup, *ends, counts, strict_json(evaluation)),
    )
    rows = file.execute(
        "SELECT round, ended_at, json_extract(verdict, '$.evaluated_at') AS evaluated_at, status, speedup, "
        "low, high, counts FROM result WHERE id = ? ORDER BY round",
        (ended,),
    )
    return json.dumps([dict(row) for row in rows])


def _entry(row: sqlite3.Row) -> StoredEvaluation:
    return StoredEvaluation.model_validate({**row, "results": json.loads(row["results"])})
