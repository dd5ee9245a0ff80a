"""`kernelwright experiment`: strategies compared on equal budgets, by the same evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import kernelwright as kw
from kernelwright.agent.cli.runs import run_options as shared
from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.console import out, print_json, print_lines, print_policy_tables
from kernelwright.agent.setup import policy
from kernelwright.agent.setup.usage_error import UsageError, unknown

if TYPE_CHECKING:
    from kernelwright.agent.leaderboard import Entry
    from kernelwright.agent.runner import Plan, RunSummary

OWN: Final = ("strategy", "options.samples", "options.turns", "options.enough", "budget.attempts")
"""Settings of a run that an experiment decides itself."""

COMPARED: Final = tuple(path for path in options.RUN if path not in OWN)

TOLD: Final = (
    *("ranked_k", "ranked", "problems", "solved", "geomean", "geomean_solved"),
    *("attempts", "tokens", "cost_usd", "unpriced"),
)
"""Fields of a leaderboard's entry that the answer as JSON holds."""

Strategies = Annotated[
    options.Names,
    options.option(
        "Strategy to compare; may be repeated. Default: all that are installed.",
        *("--strategy", "-s"),
        metavar="NAME",
        autocompletion=completion.strategies,
        panel=options.SEARCH,
    ),
]
Attempts = Annotated[
    int | None,
    options.option(
        "Replies for each problem and strategy. Default: 8 where nothing else bounds them.",
        min=1,
        panel=options.BUDGET,
    ),
]
Tokens = Annotated[
    int | None, options.option("Tokens for each problem and strategy.", min=1, panel=options.BUDGET)
]
Cost = Annotated[
    float | None, options.option("Dollars for each problem and strategy.", min=0, panel=options.BUDGET)
]
Turns = Annotated[
    int, options.option("Turns of a conversation.", "--turns", "-t", min=1, panel=options.SEARCH)
]
Population = Annotated[int, options.option("Attempts in a generation.", min=1, panel=options.SEARCH)]


@options.with_settings(*COMPARED)
def experiment(
    given: options.Given,
    problems: shared.Problems = None,
    strategy: Strategies = None,
    attempts: Attempts = None,
    tokens: Tokens = None,
    cost: Cost = None,
    turns: Turns = 4,
    population: Population = 4,
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    config: shared.Config = None,
    assign: shared.Assignments = None,
    resume: shared.Resume = None,
    json: options.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Compare strategies: the same problems, the same budget for each problem, the same evaluator.

    It is one run, and is resumed like any; nothing is taken from the completion cache. Prints for each
    strategy what it solved, the mean speedup of its best of equally many replies with a 95 % interval over
    problems, and what it cost; a table for each policy. Exit status 0 means that something passed.
    """
    from kernelwright.agent.setup.preparation import RunPlace
    from kernelwright.agent.setup.run_batch import work_through

    if resume is None:
        limits = {"attempts": attempts, "tokens": tokens, "cost_usd": cost}
        shape = {"turns": turns, "population": population}
        for name, value in equal_budgets(strategy or (), limits, shape).items():
            given = given.with_setting(name, value)
    settings = shared.read(given, problems, config, assign, resume)
    place = RunPlace(workspace, cache)
    with shared.watching(quiet=quiet or json) as watch:
        work = shared.prepare_watched(place, settings, resume)
        if not work.plan.others:
            raise UsageError("an experiment compares at least two strategies")
        summary = work_through(place, work, on_event=watch)
    entries = kw.board(
        kw.Workspace(workspace).archive().attempts(summary.run_id), seed=work.plan.seed
    ).entries
    _report(work.plan, summary, sorted(entries, key=_rank), kw.Workspace(workspace), json=json)
    raise typer.Exit(summary.exit_code)


def equal_budgets(
    names: Sequence[str], limits: Mapping[str, float | None], shape: Mapping[str, int]
) -> dict[str, object]:
    """Settings that give every strategy equally many replies; raises UsageError for an unknown strategy."""
    from kernelwright.agent.strategies import find_strategy
    from kernelwright.evaluator import plugins

    bounds = {name: limit for name, limit in limits.items() if limit is not None}
    bounds = bounds or {"attempts": policy.EXPERIMENT_ATTEMPTS}
    most = int(bounds.get("attempts", policy.MOST_EXPERIMENT_ATTEMPTS))
    known = tuple(plugins("strategies"))
    compared: dict[str, object] = {}
    for name in dict.fromkeys(names or known):
        if name not in known:
            raise UsageError(f"--strategy: {unknown('strategy', name, known)}")
        kind = find_strategy(name)
        own = {field: value for field, value in shape.items() if field in kind.model_fields}
        fitted = kind.model_validate({"name": name, **own}).within(most)
        compared[name] = fitted.model_dump(mode="json", exclude={"name"}, exclude_unset=True)
    return {"compared": compared, "problem_budget": bounds}


def _rank(entry: Entry) -> tuple[str, str, str, float, str]:
    of = entry.of
    return of.id, of.model, of.backend, -entry.ranked.value, of.strategy


def _report(
    plan: Plan, summary: RunSummary, entries: Sequence[Entry], place: kw.Workspace, *, json: bool
) -> None:
    from kernelwright.agent.cli.runs.run_summary import run_lines

    if json:
        print_json(
            {
                "run": summary.run_id,
                "end": summary.end,
                "reason": summary.reason,
                "budget": plan.problem_budget.model_dump(mode="json", exclude_none=True),
                "strategies": [_summary(entry) for entry in entries],
            }
        )
    else:
        headings = "strategy model backend >solved >k >best@k >95_% >replies >tokens >cost"
        print_policy_tables(headings, [(entry.of.policy, _row(entry), "") for entry in entries])
        out().print("best@k: mean of the best of k replies, failures as 1.0; interval over problems\n")
        print_lines(run_lines(place, summary))


def _summary(entry: Entry) -> dict[str, object]:
    of = entry.of
    named = {"strategy": of.strategy, "model": of.model, "backend": of.backend, "policy": of.id}
    return {**named, "terms": str(of.policy), **{name: getattr(entry, name) for name in TOLD}}


def cost_text(entry: Entry) -> str:
    """The cost of a strategy, as far as prices are known."""
    if entry.unpriced == entry.attempts:
        return "unknown"
    known = f"${entry.cost_usd:.4f}"
    return f"{known} and {entry.unpriced} unknown" if entry.unpriced else known


def _row(entry: Entry) -> tuple[str, ...]:
    of, around = entry.of, entry.ranked
    return (
        *(of.strategy, of.model, of.backend, f"{entry.solved} of {entry.problems}", f"{entry.ranked_k:.3g}"),
        f"{around.value:.2f}×",
        f"{around.low:.2f} to {around.high:.2f}" if around.low and around.high else "too few",
        *(str(entry.attempts), f"{entry.tokens:,}", cost_text(entry)),
    )
