"""`kernelwright prompt`: exactly what would be sent for a problem, with token counts."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.agent.cli.terminal import options


def prompt(
    problem: Annotated[str, typer.Argument(help="A file, an id, or an unmistakable part of one.")],
    backend: Annotated[
        str, typer.Option("--backend", "-b", help="How the kernel is to be written.")
    ] = "cuda",
    target: Annotated[
        str | None, typer.Option(help="Hardware it is for, such as h200.", show_default="this machine")
    ] = None,
    shapes: options.Shapes = None,
    dtype: options.CastTo = None,
    math: options.Precision = None,
    backward: options.Backward = None,
    few_shot: Annotated[
        int, typer.Option(min=0, max=16, help="Kept kernels of like problems that are shown.")
    ] = 0,
    few_shot_own: Annotated[
        bool, typer.Option("--few-shot-own", help="The problem's own kept kernels may be among them.")
    ] = False,
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Print exactly what would be sent first for a problem, with token counts; asks nobody.

    The messages go to standard output, the counts to standard error. Counts are estimates. Only a terminal
    is spared the control characters that a problem may hold.
    """
    from kernelwright.agent.cli.terminal.console import notes
    from kernelwright.agent.records.tokens import estimate_tokens
    from kernelwright.agent.setup.few_shot_setup import FewShotSelection, exemplars_for
    from kernelwright.agent.setup.problem_lookup import one_problem
    from kernelwright.agent.setup.prompt_setup import known_facts, open_prompts
    from kernelwright.agent.workspace import Workspace

    given = options.policy(shapes=shapes, dtype=dtype, math=math, backward=backward)
    config, found = options.evaluation_config(given), one_problem(problem)
    facts = known_facts([found], config, cache)
    prompts = open_prompts(config, [backend], target, facts=facts)
    lesson = FewShotSelection(
        problems=[found], backends=[backend], config=config, count=few_shot, own=few_shot_own
    )
    messages = prompts.opening(found, backend, exemplars_for(Workspace(workspace), lesson, cache))
    counts = [estimate_tokens(message.content) for message in messages]
    if json:
        answer = {
            "messages": [message.model_dump() for message in messages],
            "estimated_tokens": counts,
        }
        print(json_module.dumps(answer, indent=2))
        return
    for message in messages:
        print(f"=== {message.role}\n{_shown(message.content)}")
    said = ", ".join(f"{message.role} {count:,}" for message, count in zip(messages, counts, strict=True))
    notes().print(f"about {sum(counts):,} tokens ({said})", style="bold")


def _shown(content: str) -> str:
    """A message as it is sent; on a terminal without control characters, but with its tabs."""
    from kernelwright.agent.cli.terminal.console import plain

    return "\t".join(map(plain, content.split("\t"))) if sys.stdout.isatty() else content
