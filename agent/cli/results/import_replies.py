"""`kernelwright import`: replies made elsewhere become attempts like any other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final

import kernelwright as kw
from kernelwright.agent.cli.evaluation.evaluate import Backend
from kernelwright.agent.cli.results.attempts_command import attempt_summary
from kernelwright.agent.cli.runs.run_options import watching
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.console import colour, print_json, print_lines, print_table
from kernelwright.agent.cli.terminal.failures import did_pass, say

if TYPE_CHECKING:
    from kernelwright.agent.interop.imports.reply_recorder import RecordedReply
    from kernelwright.agent.records.attempt_log import Attempt

MOST_NAMED: Final = 5
"""Parts of files left out that are named one by one."""


Files = Annotated[
    list[Path],
    options.argument(
        "Reply files, chat completions as JSON or JSON Lines, KernelBench run folders.", "FILE..."
    ),
]
Model = Annotated[str | None, options.option("Author of replies that name none.", "--model", "-m")]
License = Annotated[str | None, options.option("Licence of the replies.")]
Evaluate = Annotated[bool, options.flag("Evaluate them now.", "--evaluate")]


@options.with_settings(*(path for path in options.POLICY if path != "evaluation.counters"), "plain_build")
def import_files(
    given: options.Given,
    files: Files,
    problem: options.ProblemNames = None,
    backend: Backend = None,
    model: Model = None,
    license: License = None,
    evaluate: Evaluate = False,
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Take in replies made elsewhere as a run of their own.

    A reply's problem is found by the name its file gives, or is the only one that --problem names; a
    doubtful match is said, an unmatched reply is recorded and cannot be evaluated. Numbers name problems only
    where --problem says which collection they are of. Parts that hold no reply (a request that failed, a
    damaged line) are left out and said. Exit status 1 means that nothing passed (with --evaluate) or held
    code.
    """
    from kernelwright.agent.interop.imports import read_replies
    from kernelwright.agent.interop.imports.reply_recorder import ReplyDefaults, record_replies
    from kernelwright.agent.setup.preparation import RunPlace, keeping
    from kernelwright.agent.setup.problem_lookup import read_problems
    from kernelwright.agent.setup.run_batch import evaluate_recorded
    from kernelwright.evaluator import find_backend

    settings = given.run_settings()
    if backend is not None:
        find_backend(backend)
    skipped: list[str] = []
    replies = [reply for file in files for reply in read_replies(file, skipped.append)]
    archive = kw.Workspace(workspace).archive()
    source = ReplyDefaults(
        problems={problem.id: problem for problem in read_problems(problem or ["all"])},
        backend=backend,
        model=model,
        license=license,
        is_numbered_alike=bool(problem),
        config=keeping(settings.evaluation),
        plain_build=settings.plain_build,
    )
    log, taken = record_replies(archive, replies, source)
    _say_skipped(skipped)
    with log, watching(quiet=json) as watch:
        if evaluate and any(entry.match for entry in taken):
            evaluate_recorded(RunPlace(workspace, cache), log, settings, watch)
    attempts = {attempt.id: attempt for attempt in archive.attempts(log.run)}
    rows = [(entry, attempts[entry.key.attempt]) for entry in taken]
    if json:
        print_json([_summary(*row) for row in rows])
    else:
        _print_rows(rows, archive)
    is_good = [attempt.passed if evaluate else bool(entry.extraction.code) for entry, attempt in rows]
    raise did_pass(any(is_good))


def _status(taken: RecordedReply, attempt: Attempt) -> kw.Status | None:
    """Status of the evaluation or extraction; None while it waits to be evaluated."""
    return attempt.status or taken.extraction.status


def _summary(taken: RecordedReply, attempt: Attempt) -> dict[str, object]:
    line, extraction = attempt.completion, taken.extraction
    return {
        "origin": line.origin,
        **attempt_summary(attempt),
        "matched_by": taken.match.how if taken.match else None,
        "generated_at": taken.reply.generated_at,
        "completion_tokens": line.usage.completion_tokens,
        "outcome": extraction.outcome,
        "rule": extraction.rule,
        "notes": extraction.notes,
        "code": extraction.code or None,
        "status": _status(taken, attempt),
    }


def _print_rows(rows: Sequence[tuple[RecordedReply, Attempt]], archive: kw.Archive) -> None:
    statuses = [_status(*row) for row in rows]
    print_table(
        "file outcome by problem model",
        [
            (
                _place(attempt.completion.origin),
                status or taken.extraction.outcome,
                taken.extraction.rule,
                _problem(taken),
                attempt.key.model,
            )
            for status, (taken, attempt) in zip(statuses, rows, strict=True)
        ],
        [colour(status) if status else "" for status in statuses],
    )
    run = rows[0][1].key.run
    if any(attempt.status is None and taken.match for taken, attempt in rows):
        resume = f"kernelwright run --resume {run} --workspace {quote(str(archive.folder.parent))}"
        print_lines([("evaluate", resume)])
    print_lines([("log", (archive.folder / run).resolve())])


def _place(origin: str) -> str:
    # The end of a long path tells files apart; its beginning is the same for all of them.
    parts = origin.rsplit("/", 2)
    return "…/" + "/".join(parts[1:]) if len(parts) == 3 else origin


def _say_skipped(skipped: Sequence[str]) -> None:
    for why in skipped[:MOST_NAMED]:
        say(f"left out: {why}")
    if len(skipped) > MOST_NAMED:
        say(f"left out: {len(skipped) - MOST_NAMED} more; {len(skipped)} in all")


def _problem(taken: RecordedReply) -> str:
    match, called = taken.match, taken.reply.problem
    if match is None:
        return f"{called}: not among the problems; --problem FILE" if called else "not said; --problem FILE"
    if match.how == "asked":
        return match.problem + (f" (as asked; the file says {called})" if called else " (as asked)")
    doubt = "" if match.certain else f" (doubtful: by {match.how}; the file says {called})"
    return match.problem + doubt
