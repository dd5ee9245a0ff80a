"""`kernelwright attempts`: replies of models and what came of each, failures included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.agent.cli.results.runs import find_run
from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.failures import say_once

if TYPE_CHECKING:
    from kernelwright.agent.archive import Archive
    from kernelwright.agent.records.attempt_log import Attempt

app = typer.Typer(no_args_is_help=True, help="List and show attempts, failed ones included.")

SHOWN_DIGITS = 12
"""Digits of an attempt's id that lists show; any unique prefix names it."""

Names = list[str] | None


@app.command("list")
def list_attempts(
    workspace: options.Workspace = Path(),
    run: options.RunFilter = None,
    problem: options.ProblemFilter = None,
    status: Annotated[
        Names, typer.Option(help="Only attempts that ended so, such as WRONG_VALUES; may be repeated.")
    ] = None,
    backend: Annotated[Names, typer.Option("--backend", "-b", help="Only these backends.")] = None,
    model: Annotated[Names, typer.Option("--model", "-m", help="Only these models.")] = None,
    json: options.Json = False,
) -> None:
    """List attempts in the order they were made, a table for each policy of their scores."""
    from kernelwright.agent.cli.terminal.console import out
    from kernelwright.agent.records.strict_json import strict_json
    from kernelwright.agent.workspace import Workspace

    archive = Workspace(workspace).archive(say_once())
    wanted = [name.upper() for name in status or ()]
    found = [
        attempt
        for attempt in archive.attempts(find_run(archive, run) if run else None)
        if (not problem or any(part in attempt.key.problem for part in problem))
        and (not wanted or str(attempt.status) in wanted)
        and (not backend or attempt.key.backend in backend)
        and (not model or attempt.key.model in model)
    ]
    if json:
        print(strict_json([_summary(attempt) for attempt in found], indent=2))
    elif not found:
        out().print(f"no such attempts below {archive.folder.resolve()}")
    else:
        _print_tables(archive, found)


def _print_tables(archive: Archive, found: Sequence[Attempt]) -> None:
    from kernelwright.agent.cli.terminal.console import colour, line, out, print_table
    from kernelwright.agent.leaderboard.rows import settled_policies
    from kernelwright.agent.records.score_policy import ScorePolicy

    # What reached no device counts for the machine of its run, which other attempts of it may tell.
    runs = dict.fromkeys(attempt.key.run for attempt in found)
    policies = settled_policies(attempt for run in runs for attempt in archive.attempts(run))
    tables: dict[ScorePolicy | None, list[Attempt]] = {}
    for attempt in found:
        tables.setdefault(policies.get(attempt.id), []).append(attempt)
    for number, (policy, members) in enumerate(sorted(tables.items(), key=lambda table: -len(table[1]))):
        heading = f"{policy.id}: {line(str(policy))}" if policy else "not evaluated"
        out().print(f"{chr(10) if number else ''}{heading}", style="bold", soft_wrap=True)
        print_table(
            "attempt problem backend model >turn status >speedup detail",
            [list(_row(attempt)) for attempt in members],
            [colour(attempt.status) if attempt.status else "" for attempt in members],
        )
    if any(attempt.evaluation and attempt.evaluation.score.why_unfit for attempt in found):
        out().print("‡: measured, but not to be compared; `attempts show` says why")


@app.command("show")
def show_attempt(
    attempt: Annotated[
        str,
        typer.Argument(
            metavar="ATTEMPT",
            help="An attempt's id, or a unique prefix of it.",
            autocompletion=completion.attempts,
        ),
    ],
    workspace: options.Workspace = Path(),
    json: options.Json = False,
) -> None:
    """Show an attempt: conversation, code, evaluation, compiler's log, and the feedback a model gets."""
    from kernelwright.agent.cli.evaluation.evaluation_card import card
    from kernelwright.agent.cli.terminal.console import line, out, plain, print_source
    from kernelwright.agent.prompting.prompts import TemplatePrompts, installed_prompts
    from kernelwright.agent.records.strict_json import strict_json
    from kernelwright.agent.workspace import Workspace

    archive = Workspace(workspace).archive(say_once())
    found = find_attempt(archive, attempt)
    code, evaluation = archive.code(found), archive.evaluation(found)
    said = conversation(archive, found)
    feedback = TemplatePrompts(installed_prompts()).feedback(evaluation, code) if evaluation else ""
    if json:
        scored = evaluation.model_dump(mode="json") if evaluation else None
        whole = {"code": code, "evaluation": scored, "feedback": feedback, "conversation": said}
        print(strict_json(_summary(found) | whole, indent=2))
        return
    print_conversation(said)
    if code is not None:
        _title("code")
        print_source(code)
    logs = [build.log for build in evaluation.builds if build.log] if evaluation else []
    for title, text in [*(("compiler's log", log) for log in logs), ("feedback", feedback)]:
        if text.strip():
            _title(title)
            out().print(plain(text), soft_wrap=True)
    if evaluation is not None:
        out().print(card(evaluation))
    for label, value in _summary(found).items():
        if value not in (None, ""):
            out().print(f"{label:<9}{line(str(value))}", soft_wrap=True)


def find_attempt(archive: Archive, name: str) -> Attempt:
    """The attempt that an id or a unique prefix of one names.

    Raises:
        UsageError: none, or more than one.
    """
    from kernelwright.agent.setup.usage_error import UsageError

    found = [attempt for attempt in archive.attempts() if attempt.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{name!r} could be {', '.join(attempt.id for attempt in found)}; name one of them")
    raise UsageError(f"no attempt {name!r} below {archive.folder}; `kernelwright attempts list` lists them")


def conversation(archive: Archive, attempt: Attempt) -> list[dict[str, str]]:
    """The messages of an attempt, its reply last, with thoughts in `reasoning`.

    Raises:
        ArchiveError: a text of it is missing or damaged.
    """
    line = attempt.completion
    thoughts = archive.reasoning(line)
    reply = {"role": "assistant", "content": archive.reply(line)} | (
        {"reasoning": thoughts} if thoughts else {}
    )
    return [*(message.model_dump() for message in archive.messages(line)), reply]


def print_conversation(said: Sequence[Mapping[str, str]]) -> None:
    """Print messages, each below its role."""
    from kernelwright.agent.cli.terminal.console import out, plain

    for message in said:
        role = message["role"]
        for title, text in ((f"{role}, thinking", message.get("reasoning")), (role, message["content"])):
            if text:
                _title(title)
                out().print(plain(text), soft_wrap=True)


def _title(text: str) -> None:
    from kernelwright.agent.cli.terminal.console import out

    out().print(f"\n--- {text}", style="bold")


def _summary(attempt: Attempt) -> dict[str, object]:
    key, score = attempt.key, attempt.evaluation.score if attempt.evaluation else None
    return {
        "attempt": attempt.id,
        "run": key.run,
        "problem": key.problem,
        "backend": key.backend,
        "model": key.model,
        "strategy": key.strategy,
        "sample": key.sample,
        "turn": key.turn,
        "status": score.status if score else None,
        "stage": score.stage if score else None,
        "detail": score.detail if score else attempt.completion.outcome,
        "speedup": attempt.speedup,
        "unfit": score.why_unfit if score else None,
        "policy": score.id if score else None,
        "terms": str(score.policy) if score else None,
        "cost_usd": attempt.completion.cost_usd,
    }


def _row(attempt: Attempt) -> Iterator[str]:
    from kernelwright.agent.cli.terminal.progress import shortened

    told = _summary(attempt)
    score = attempt.evaluation.score if attempt.evaluation else None
    measured = score.speedup if score else None
    speed = "-" if measured is None else f"{measured:.2f}×{'‡' if score and score.why_unfit else ''}"
    yield from (attempt.id[:SHOWN_DIGITS], attempt.key.problem, attempt.key.backend, attempt.key.model)
    yield from (str(attempt.key.turn + 1), str(told["status"] or "-"), speed, shortened(str(told["detail"])))
