"""The end of a run: its leaderboard, unfinished work, and paths."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from shlex import quote

from kernelwright.agent.cli.terminal.console import out, print_lines
from kernelwright.agent.leaderboard import board, render
from kernelwright.agent.records.attempt_log import RunEnd
from kernelwright.agent.records.durations import seconds
from kernelwright.agent.runner import RunSummary
from kernelwright.agent.workspace import Workspace


def print_end(place: Workspace, summary: RunSummary, *, bulk: bool = False) -> None:
    """Print the run's leaderboard and where to look further."""
    standing = board(place.archive().attempts(summary.run_id))
    if standing.entries:
        out().print(render(standing))
        out().print()
    print_lines(run_lines(place, summary, bulk=bulk))


def run_lines(place: Workspace, summary: RunSummary, *, bulk: bool = False) -> Iterator[tuple[str, str]]:
    """Totals of a run and where to look further, each line with its label; `bulk` was asked in batches."""
    yield "run", _totals(summary)
    if summary.remembered:
        yield "free", f"{summary.remembered} replies came from the cache; --fresh asks anew"
    if summary.end not in (RunEnd.COMPLETE, RunEnd.ASKED):
        yield "stopped", summary.reason or str(summary.end)
    elif summary.reason:
        yield "waits", summary.reason
    for problem, why in summary.skipped.items():
        yield "skipped", f"{problem}: {why}"
    yield from _ways_on(place, summary, bulk)
    if summary.attempts > summary.passed:
        yield (
            "failed",
            f"kernelwright attempts list --run {summary.run_id} --workspace {quote(str(place.root))}",
        )
    yield "kernels", f"{place.generated.resolve()} ({summary.kept} saved by this run)"
    yield "log", str((place.runs / summary.run_id).resolve())


def _totals(summary: RunSummary) -> str:
    usage = summary.usage
    parts = [
        f"{summary.attempts} replies",
        f"{summary.passed} passed",
        f"{usage.prompt_tokens + usage.completion_tokens:,} tokens",
    ]
    if summary.cost_usd:
        parts.append(f"${summary.cost_usd:.4f}")
    if summary.unpriced:
        parts.append(f"cost of {summary.unpriced} replies unknown")
    return f"{summary.run_id}: {', '.join([*parts, seconds(summary.seconds)])}"


def _ways_on(place: Workspace, summary: RunSummary, bulk: bool) -> Iterator[tuple[str, str]]:
    """The commands that go on with a run."""
    this = f"--resume {summary.run_id} --workspace {quote(str(place.root))}"
    left, end = summary.unevaluated, summary.end
    waiting = f" ({left} replies wait to be evaluated)" if left else ""
    if bulk and summary.to_come:
        yield "collect", f"kernelwright generate {this}"
    if end is RunEnd.BUDGET:
        yield "raise it", f"kernelwright run {this} {_twice_the_limit(summary)}"
    if left and (bulk or end is RunEnd.ASKED):
        yield "evaluate", f"kernelwright run {this}{waiting}"
    elif left or not (bulk or end in (RunEnd.COMPLETE, RunEnd.ASKED, RunEnd.BUDGET)):
        yield "go on", f"kernelwright run {this}{waiting}"


def _twice_the_limit(summary: RunSummary) -> str:
    """The option that doubles what a run that reached its budget has spent most of."""
    budget, usage = summary.budget, summary.usage
    limits = (
        ("--max-attempts", budget.attempts, summary.attempts),
        ("--max-tokens", budget.tokens, usage.prompt_tokens + usage.completion_tokens),
        ("--max-cost", budget.cost_usd, float(summary.cost_usd)),
        ("--max-time", budget.seconds, summary.seconds),
    )
    given = [
        (spent / (float(limit) or 1e-9), name, limit) for name, limit, spent in limits if limit is not None
    ]
    _, option, limit = max(given, key=lambda bound: bound[0])
    return f"{option} {(2 * Decimal(str(limit)) or Decimal(1)).normalize():f}"
