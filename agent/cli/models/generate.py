"""`kernelwright generate`: asks for samples; a later process judges them, unless told otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.agent.cli.models import run_options as asked
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.durations import parse_seconds

BULK = "In bulk"

BatchApi = Annotated[
    bool | None,
    typer.Option(
        "--batch-api",
        help="Ask through the OpenAI Batch API: cheaper, answered within a day.",
        show_default="off",
        rich_help_panel=BULK,
    ),
]
Poll = Annotated[str, typer.Option(help="How often to look after batches: 90s, 10m.", rich_help_panel=BULK)]
Wait = Annotated[
    bool,
    typer.Option("--wait/--no-wait", help="Stay until the replies are there.", rich_help_panel=BULK),
]
Evaluate = Annotated[bool, typer.Option("--evaluate", help="Judge the replies once they are there.")]


def generate(
    problems: asked.Problems = None,
    backend: asked.Backends = None,
    model: asked.Models = None,
    samples: asked.Samples = None,
    base_url: asked.BaseUrl = None,
    fallback: asked.Fallback = None,
    fresh: asked.Fresh = None,
    provider: asked.Provider = None,
    recordings: asked.Recordings = None,
    record: asked.Record = None,
    target: asked.Target = None,
    temperature: asked.Temperature = None,
    reply_tokens: asked.ReplyTokens = None,
    stream: asked.Stream = None,
    batch_api: BatchApi = None,
    poll: Poll = "60s",
    wait: Wait = True,
    evaluate: Evaluate = False,
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
    time: options.Time = None,
    limit: options.Limit = None,
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    config: asked.Config = None,
    assign: asked.Assignments = None,
    resume: asked.Resume = None,
    quiet: asked.Quiet = False,
    json_lines: asked.JsonLines = False,
) -> None:
    """Ask for independent samples of every problem, as a run; `run --resume` judges them later.

    With --batch-api what was asked survives everything: `generate --resume` collects it, days later.
    """
    from kernelwright.agent.cli.models.sample_batch import SampleBatch, send
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
        "options": options.present({"samples": samples}) or None,
        "batch_api": batch_api,
        "few_shot": few_shot,
        "few_shot_own": few_shot_own,
        "evaluation": judging or None,
        "budget": options.present(bounds) or None,
        "completions": concurrency,
        "evaluators": evaluators,
    }
    asked_for = merge(parse_assignments(assign or ()), options.present(given))
    session = Session(
        workspace=workspace,
        cache=cache,
        record=record,
        shown=Shown.JSON_LINES if json_lines else Shown.QUIET if quiet else Shown.LIVE,
    )
    errand = SampleBatch(poll_s=parse_seconds(poll), waits=wait, evaluate=evaluate)
    raise typer.Exit(send(session, asked_for, errand, config=config, resume=resume))
