"""`kernelwright run`: from options to settings; `kernelwright.agent.setup.session` does the rest."""

from __future__ import annotations

from pathlib import Path

import typer

from kernelwright.agent.cli.models import run_options as asked
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.durations import parse_seconds


def run(
    problems: asked.Problems = None,
    backend: asked.Backends = None,
    model: asked.Models = None,
    provider: asked.Provider = None,
    base_url: asked.BaseUrl = None,
    fallback: asked.Fallback = None,
    fresh: asked.Fresh = None,
    recordings: asked.Recordings = None,
    record: asked.Record = None,
    target: asked.Target = None,
    temperature: asked.Temperature = None,
    reply_tokens: asked.ReplyTokens = None,
    stream: asked.Stream = None,
    strategy: asked.Strategy = None,
    samples: asked.Samples = None,
    turns: asked.Turns = None,
    enough: asked.Enough = None,
    seed: asked.Seed = None,
    few_shot: asked.FewShot = None,
    few_shot_own: asked.FewShotOwn = None,
    max_cost: asked.MaxCost = None,
    max_tokens: asked.MaxTokens = None,
    max_time: asked.MaxTime = None,
    max_attempts: asked.MaxAttempts = None,
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
    counters: options.Counting = None,
    time: options.Time = None,
    limit: options.Limit = None,
    plain_build: options.PlainBuild = None,
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    config: asked.Config = None,
    assign: asked.Assignments = None,
    print_config: asked.PrintConfig = False,
    resume: asked.Resume = None,
    quiet: asked.Quiet = False,
    json_lines: asked.JsonLines = False,
) -> None:
    """Ask a model for kernels, judge every reply, keep what passes, and print a leaderboard.

    Without a key and without a base URL recorded replies are replayed. Keys come from KERNELWRIGHT_API_KEY
    or OPENAI_API_KEY. Exit status 0 means that something passed, 1 that nothing did.
    """
    from kernelwright.agent.cli.terminal.settings_toml import explained
    from kernelwright.agent.setup.provider_setup import parse_fallbacks
    from kernelwright.agent.setup.run_settings import merge, parse_assignments, read_settings
    from kernelwright.agent.setup.session import Session, Shown, go

    judging = options.policy(
        device=device,
        shapes=shapes,
        dtype=dtype,
        math=math,
        backward=backward,
        baselines=baselines,
        sandbox=sandbox,
        sanitize=sanitize,
        counters=counters,
        time=time,
        limit=limit,
    )
    bounds = {
        "cost_usd": max_cost,
        "tokens": max_tokens,
        "seconds": parse_seconds(max_time) if max_time is not None else None,
        "attempts": max_attempts,
    }
    given = {
        "problems": tuple(problems) if problems else None,
        "backends": tuple(backend) if backend else None,
        "models": tuple(model) if model else None,
        "provider": provider,
        "base_url": base_url,
        "fallbacks": parse_fallbacks(fallback) if fallback else None,
        "fresh": fresh,
        "recordings": str(recordings.resolve()) if recordings else None,
        "stream": stream,
        "target": target,
        "sampling": options.present({"temperature": temperature, "max_tokens": reply_tokens}) or None,
        "strategy": strategy,
        "options": options.present({"samples": samples, "turns": turns, "enough": enough}) or None,
        "seed": seed,
        "plain_build": plain_build,
        "few_shot": few_shot,
        "few_shot_own": few_shot_own,
        "evaluation": judging or None,
        "budget": options.present(bounds) or None,
        "completions": concurrency,
        "evaluators": evaluators,
    }
    asked_for = merge(parse_assignments(assign or ()), options.present(given))
    if print_config:
        print(explained(read_settings(config, asked_for)), end="")
        raise typer.Exit
    session = Session(
        workspace=workspace,
        cache=cache,
        record=record,
        shown=Shown.JSON_LINES if json_lines else Shown.QUIET if quiet else Shown.LIVE,
    )
    raise typer.Exit(go(session, asked_for, config=config, resume=resume))
