"""`kernelwright experiment`: strategies compared on equal budgets, by the same evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.agent.cli.models import run_options as asked
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.durations import parse_seconds
from kernelwright.agent.cli.terminal.options import plugin_name

Compared = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy",
        "-s",
        parser=plugin_name("strategies"),
        metavar="NAME",
        help="Strategy to compare, as of `run`; may be repeated.",
        show_default="all",
        rich_help_panel=asked.SEARCH,
    ),
]
Attempts = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Replies for each problem and strategy.",
        show_default="8, without other bounds",
        rich_help_panel=asked.BOUNDS,
    ),
]
Tokens = Annotated[
    int | None,
    typer.Option(min=1, help="Tokens for each problem and strategy.", rich_help_panel=asked.BOUNDS),
]
Cost = Annotated[
    float | None,
    typer.Option(min=0, help="Dollars for each problem and strategy.", rich_help_panel=asked.BOUNDS),
]
Turns = Annotated[
    int,
    typer.Option(
        "--turns", "-t", min=1, help="Turns of a `refine` conversation.", rich_help_panel=asked.SEARCH
    ),
]
Population = Annotated[
    int, typer.Option(min=1, help="Attempts in a generation of `evolve`.", rich_help_panel=asked.SEARCH)
]


def experiment(
    problems: asked.Problems = None,
    backend: asked.Backends = None,
    model: asked.Models = None,
    strategy: Compared = None,
    attempts: Attempts = None,
    tokens: Tokens = None,
    cost: Cost = None,
    turns: Turns = 4,
    population: Population = 4,
    seed: asked.Seed = None,
    few_shot: asked.FewShot = None,
    provider: asked.Provider = None,
    base_url: asked.BaseUrl = None,
    fallback: asked.Fallback = None,
    recordings: asked.Recordings = None,
    target: asked.Target = None,
    temperature: asked.Temperature = None,
    reply_tokens: asked.ReplyTokens = None,
    stream: asked.Stream = None,
    max_cost: asked.MaxCost = None,
    max_tokens: asked.MaxTokens = None,
    max_time: asked.MaxTime = None,
    concurrency: asked.Concurrency = None,
    evaluators: asked.Evaluators = None,
    device: options.Device = None,
    shapes: options.Shapes = None,
    dtype: options.CastTo = None,
    math: options.Precision = None,
    backward: options.Backward = None,
    baselines: options.Baselines = None,
    sandbox: options.Sandbox = None,
    sanitize: options.Sanitizing = None,
    time: options.Time = None,
    limit: options.Limit = None,
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    config: asked.Config = None,
    assign: asked.Assignments = None,
    resume: asked.Resume = None,
    json: options.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Compare strategies: the same problems, the same budget for each problem, the same evaluator.

    It is one run, and is resumed like any; nothing is taken from the completion cache. Prints for each
    strategy what it solved, the geometric mean of its best speedups with a 95 % interval over problems, and
    what it cost. Exit status 0 means that something passed.
    """
    from kernelwright.agent.cli.models.strategy_comparison import Bounds, compare
    from kernelwright.agent.setup.provider_setup import parse_fallbacks
    from kernelwright.agent.setup.run_settings import merge, parse_assignments
    from kernelwright.agent.setup.session import Session, Shown

    judging = options.policy(
        device=device,
        shapes=shapes,
        dtype=dtype,
        math=math,
        backward=backward,
        baselines=baselines,
        sandbox=sandbox,
        sanitize=sanitize,
        time=time,
        limit=limit,
    )
    bounds = Bounds(attempts=attempts, tokens=tokens, cost=cost, turns=turns, population=population)
    given = {
        "problems": tuple(problems) if problems else None,
        "backends": tuple(backend) if backend else None,
        "models": tuple(model) if model else None,
        "provider": provider,
        "base_url": base_url,
        "fallbacks": parse_fallbacks(fallback) if fallback else None,
        "recordings": str(recordings.resolve()) if recordings else None,
        "stream": stream,
        "target": target,
        "sampling": options.present({"temperature": temperature, "max_tokens": reply_tokens}) or None,
        "seed": seed,
        "few_shot": few_shot,
        "evaluation": judging or None,
        "budget": options.present(
            {
                "cost_usd": max_cost,
                "tokens": max_tokens,
                "seconds": parse_seconds(max_time) if max_time is not None else None,
            }
        )
        or None,
        "completions": concurrency,
        "evaluators": evaluators,
    }
    session = Session(
        workspace=workspace, cache=cache, record=None, shown=Shown.QUIET if json or quiet else Shown.LIVE
    )
    laid_out = bounds.settings(strategy or ()) if resume is None else {}
    asked_for = merge(parse_assignments(assign or ()), {**options.present(given), **laid_out})
    raise typer.Exit(compare(session, asked_for, config=config, resume=resume, json=json))
