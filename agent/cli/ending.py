"""The end of a run: its leaderboard, what was left undone, and where everything lies."""

from __future__ import annotations

from collections.abc import Iterator

from agent.batch import RunSummary
from agent.cli.screen import out, plain, seconds
from agent.leaderboard import board, render
from agent.run import RunEnd
from agent.workspace import Workspace


def print_end(place: Workspace, summary: RunSummary) -> None:
    """Print the run's leaderboard and where to look further."""
    console = out()
    standing = board(place.archive().attempts(summary.run_id))
    if standing.entries:
        console.print(render(standing))
        console.print()
    for label, text in run_lines(place, summary):
        console.print(f"{label:<9}{plain(text)}", soft_wrap=True)


def run_lines(place: Workspace, summary: RunSummary) -> Iterator[tuple[str, str]]:
    """What came of a run and where to look further, each line with its label."""
    usage = summary.usage
    tokens = usage.prompt_tokens + usage.completion_tokens
    cost = f", ${summary.cost_usd:.4f}" if summary.cost_usd else ""
    yield (
        "run",
        (
            f"{summary.run_id}: {summary.attempts} replies, {summary.passed} passed, "
            f"{tokens:,} tokens{cost}, {seconds(summary.seconds)}"
        ),
    )
    if summary.remembered:
        yield "free", f"{summary.remembered} replies came from the cache; --fresh asks anew"
    if summary.end not in (RunEnd.COMPLETE, RunEnd.ASKED):
        yield "stopped", summary.reason or str(summary.end)
    elif summary.reason:
        yield "waits", summary.reason
    for problem, why in summary.skipped.items():
        yield "skipped", f"{problem}: {why}"
    left = summary.unevaluated
    if summary.end is RunEnd.ASKED and summary.reason:
        yield "collect", f"kernelwright generate --resume {summary.run_id} --workspace {place.root}"
    if summary.end is RunEnd.ASKED and left:
        judging = f"kernelwright run --resume {summary.run_id} --workspace {place.root}"
        yield "judge", f"{judging} ({left} replies wait to be judged)"
    elif left or summary.end not in (RunEnd.COMPLETE, RunEnd.ASKED):
        waiting = f" ({left} replies wait to be judged)" if left else ""
        yield "go on", f"kernelwright run --resume {summary.run_id} --workspace {place.root}{waiting}"
    yield "kernels", f"{place.generated.resolve()} ({summary.kept} kept by this run)"
    yield "log", str((place.runs / summary.run_id).resolve())
