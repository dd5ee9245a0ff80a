"""`kernelwright attempts`: replies of models and what came of each, failures included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import kernelwright as kw
from kernelwright.agent.cli.evaluation.evaluation_card import card
from kernelwright.agent.cli.terminal import completion, console, options
from kernelwright.agent.cli.terminal.failures import say_once
from kernelwright.agent.setup.usage_error import UsageError

if TYPE_CHECKING:
    from kernelwright.agent.records.attempt_log import Attempt

app = typer.Typer(no_args_is_help=True, help="List and show attempts, failed ones included.")

SHOWN_DIGITS = 12
"""Digits of an attempt's id that lists show; any unique prefix names it."""


@app.command("list")
def list_attempts(
    workspace: options.Workspace = Path(),
    run: options.RunFilter = None,
    problem: options.ProblemFilter = None,
    status: Annotated[
        options.Names, options.option("Only attempts that ended so, such as WRONG_VALUES; may be repeated.")
    ] = None,
    backend: options.BackendFilter = None,
    model: options.ModelFilter = None,
    json: options.Json = False,
) -> None:
    """List attempts in the order they were made, a table for each policy of their scores."""
    archive = kw.Workspace(workspace).archive(say_once())
    wanted = [name.upper() for name in status or ()]
    found = [
        attempt
        for attempt in archive.attempts(archive.find(run) if run else None)
        if (not problem or any(part in attempt.key.problem for part in problem))
        and (not wanted or str(attempt.status) in wanted)
        and (not backend or attempt.key.backend in backend)
        and (not model or attempt.key.model in model)
    ]
    if json:
        console.print_json([attempt_summary(attempt) for attempt in found])
    elif not found:
        console.out().print(f"no such attempts below {archive.folder.resolve()}")
    else:
        _print_tables(archive, found)


def _print_tables(archive: kw.Archive, found: Sequence[Attempt]) -> None:
    from kernelwright.agent.leaderboard.rows import settled_policies

    # What reached no device counts for the machine of its run, which other attempts of it may tell.
    runs = dict.fromkeys(attempt.key.run for attempt in found)
    policies = settled_policies(attempt for run in runs for attempt in archive.attempts(run))
    console.print_policy_tables(
        "attempt problem backend model >turn status >speedup detail",
        [
            (policies.get(one.id), _row(one), console.colour(one.status) if one.status else "")
            for one in found
        ],
    )
    if any(attempt.evaluation and attempt.evaluation.score.why_unfit for attempt in found):
        console.out().print("‡: measured, but not to be compared; `attempts show` says why")


@app.command("show")
def show_attempt(
    attempt: Annotated[
        str,
        options.argument(
            "An attempt's id, or a unique prefix of it.", "ATTEMPT", autocompletion=completion.attempts
        ),
    ],
    workspace: options.Workspace = Path(),
    json: options.Json = False,
) -> None:
    """Show an attempt: conversation, code, evaluation, compiler's log, and the feedback a model gets."""
    from kernelwright.agent.prompting.prompts import TemplatePrompts, installed_prompts

    archive = kw.Workspace(workspace).archive(say_once())
    found = find_attempt(archive, attempt)
    code, evaluation = archive.code(found), archive.evaluation(found)
    said = conversation(archive, found)
    feedback = TemplatePrompts(installed_prompts()).feedback(evaluation, code) if evaluation else ""
    summary = attempt_summary(found)
    if json:
        whole = {"code": code, "evaluation": evaluation, "feedback": feedback, "conversation": said}
        console.print_json(summary | whole)
        return
    print_conversation(said)
    if code is not None:
        _title("code")
        console.print_source(code)
    logs = [build.log for build in evaluation.builds if build.log] if evaluation else []
    for title, text in [*(("compiler's log", log) for log in logs), ("feedback", feedback)]:
        if text.strip():
            _title(title)
            console.out().print(console.plain(text), soft_wrap=True)
    if evaluation is not None:
        console.out().print(card(evaluation))
    console.print_lines((label, value) for label, value in summary.items() if value not in (None, ""))


def find_attempt(archive: kw.Archive, name: str) -> Attempt:
    """The attempt that an id or a unique prefix of one names; raises UsageError for none or several."""
    found = [attempt for attempt in archive.attempts() if attempt.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{name!r} could be {', '.join(attempt.id for attempt in found)}; name one of them")
    raise UsageError(f"no attempt {name!r} below {archive.folder}; `kernelwright attempts list` lists them")


def conversation(archive: kw.Archive, attempt: Attempt) -> list[dict[str, str]]:
    """The messages of an attempt, its reply last, with thoughts in `reasoning`; raises ArchiveError."""
    line = attempt.completion
    thoughts = archive.reasoning(line)
    reply = {"role": "assistant", "content": archive.reply(line)} | (
        {"reasoning": thoughts} if thoughts else {}
    )
    return [*(message.model_dump() for message in archive.messages(line)), reply]


def print_conversation(said: Sequence[Mapping[str, str]]) -> None:
    """Print messages, each below its role."""
    for message in said:
        role = message["role"]
        for title, text in ((f"{role}, thinking", message.get("reasoning")), (role, message["content"])):
            if text:
                _title(title)
                console.out().print(console.plain(text), soft_wrap=True)


def _title(text: str) -> None:
    console.out().print(f"\n--- {text}", style="bold")


def attempt_summary(attempt: Attempt) -> dict[str, object]:
    """The attempt's key and score as plain values."""
    score = attempt.evaluation.score if attempt.evaluation else None
    return {
        "attempt": attempt.id,
        **attempt.key.model_dump(),
        "status": score.status if score else None,
        "stage": score.stage if score else None,
        "detail": score.detail if score else attempt.completion.outcome,
        "speedup": attempt.speedup,
        "unfit": score.why_unfit if score else None,
        "policy": score.id if score else None,
        "terms": str(score.policy) if score else None,
        "cost_usd": attempt.completion.cost_usd,
    }


def _row(attempt: Attempt) -> list[str]:
    key, score = attempt.key, attempt.evaluation.score if attempt.evaluation else None
    measured = score.speedup if score else None
    speed = "-" if measured is None else f"{measured:.2f}×{'‡' if score and score.why_unfit else ''}"
    detail = score.detail if score else attempt.completion.outcome
    of = [attempt.id[:SHOWN_DIGITS], key.problem, key.backend, key.model, str(key.turn + 1)]
    return [*of, str(attempt.status or "-"), speed, console.shortened(detail)]
