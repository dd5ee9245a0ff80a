"""The work of `kernelwright import`: read, record, judge if asked, and say what came of every reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final

from kernelwright.agent.cli.terminal.console import colour, out, plain
from kernelwright.agent.cli.terminal.failures import say
from kernelwright.agent.interop.imports import read_replies
from kernelwright.agent.interop.imports.reply_recorder import Source, Taken, record_replies
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.setup.preparation import keeping
from kernelwright.agent.setup.problem_lookup import read_problems
from kernelwright.agent.setup.session import Session, judge_recorded
from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import EvaluationConfig, Status, find_backend

MOST_NAMED: Final = 5
"""Parts of files left out that are named one by one."""


@dataclass(frozen=True, slots=True)
class ImportJob:
    """What an import was asked to do."""

    problems: Sequence[str]
    """Names of problems; none means all of ours."""
    backend: str | None
    model: str | None
    license: str | None
    config: EvaluationConfig
    evaluate: bool
    plain_build: bool = True
    """Whether a kernel must build with torch's own headers to be kept."""


@dataclass(frozen=True, slots=True)
class Row:
    """A reply and what came of it."""

    taken: Taken
    attempt: Attempt

    @property
    def status(self) -> Status | None:
        """How it ended; None when it waits to be judged."""
        return self.attempt.status or self.taken.extraction.status

    def is_good(self, *, judged: bool) -> bool:
        """Whether it passed, or, when nothing was judged, held code."""
        return self.attempt.passed if judged else bool(self.taken.extraction.code)

    def summary(self) -> dict[str, object]:
        """As plain values."""
        line, extraction = self.attempt.completion, self.taken.extraction
        return {
            "origin": line.origin,
            "attempt": line.attempt,
            "run": line.key.run,
            "problem": line.key.problem,
            "matched_by": self.taken.match.how if self.taken.match else None,
            "backend": line.key.backend,
            "model": line.key.model,
            "generated_at": self.taken.reply.generated_at,
            "completion_tokens": line.usage.completion_tokens,
            "outcome": extraction.outcome,
            "rule": extraction.rule,
            "notes": list(extraction.notes),
            "code": extraction.code or None,
            "status": self.status,
            "speedup": self.attempt.speedup,
        }


def take_in(intake: ImportJob, files: Sequence[Path], session: Session) -> list[Row]:
    """Record every reply of the files as one run, and judge those that can be judged.

    Raises:
        Usage, UnreadableImport, ProblemError, ConfigError: nothing was recorded.
        EvaluatorError, OSError: the run holds what was done so far.
    """
    if intake.backend is not None:
        find_backend(intake.backend)
    skipped: list[str] = []
    replies = [reply for file in files for reply in read_replies(file, skipped.append)]
    problems = {problem.id: problem for problem in read_problems(list(intake.problems) or ["all"])}
    archive = Workspace(session.workspace).archive()
    config = keeping(intake.config)
    source = Source(
        problems=problems,
        backend=intake.backend,
        model=intake.model,
        license=intake.license,
        is_numbered_alike=bool(intake.problems),
        config=config,
        plain_build=intake.plain_build,
    )
    log, taken = record_replies(archive, replies, source)
    _say_skipped(skipped)
    with log:
        if intake.evaluate and any(entry.match for entry in taken):
            judge_recorded(session, log)
    attempts = {attempt.id: attempt for attempt in archive.attempts(log.run)}
    return [Row(entry, attempts[entry.key.attempt]) for entry in taken]


def print_rows(rows: Sequence[Row], session: Session) -> None:
    """Print what came of every reply, doubts included."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("file", "outcome", "by", "problem", "model"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(
            plain(row.attempt.completion.origin),
            row.status or row.taken.extraction.outcome,
            row.taken.extraction.rule,
            plain(_problem(row)),
            plain(row.attempt.key.model),
            style=colour(row.status) if row.status else None,
        )
    console = out()
    console.print(table)
    run = rows[0].attempt.key.run
    if any(row.attempt.status is None and row.taken.match for row in rows):
        console.print(
            f"judge    kernelwright run --resume {run} --workspace {quote(str(session.workspace))}",
            soft_wrap=True,
        )
    console.print(f"log      {(Workspace(session.workspace).runs / run).resolve()}", soft_wrap=True)


def _say_skipped(skipped: Sequence[str]) -> None:
    for why in skipped[:MOST_NAMED]:
        say(f"left out: {plain(why)}")
    if len(skipped) > MOST_NAMED:
        say(f"left out: {len(skipped) - MOST_NAMED} more; {len(skipped)} in all")


def _problem(row: Row) -> str:
    match, called = row.taken.match, row.taken.reply.problem
    if match is None:
        return f"{called}: not among the problems; --problem FILE" if called else "not said; --problem FILE"
    if match.how == "asked":
        return match.problem + (f" (as asked; the file says {called})" if called else " (as asked)")
    doubt = "" if match.certain else f" (doubtful: by {match.how}; the file says {called})"
    return match.problem + doubt
