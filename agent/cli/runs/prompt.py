"""`kernelwright prompt`: the first messages a model would get for a problem, with token counts."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.agent.cli.terminal import completion, options


@options.with_settings(
    *("backends", "target", "evaluation.shapes", "evaluation.dtype", "evaluation.math", "evaluation.passes"),
    *("few_shot", "few_shot_own"),
)
def prompt(
    given: options.Given,
    problem: Annotated[
        str,
        typer.Argument(help="A file, an id, or a unique part of an id.", autocompletion=completion.problems),
    ],
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Print the messages that would be sent first for a problem, with token counts; asks nobody.

    The messages go to standard output, the counts to standard error. Counts are estimates. Only a terminal
    is spared the control characters that a problem may hold.
    """
    from kernelwright.agent.cli.terminal.console import notes
    from kernelwright.agent.records.tokens import estimate_tokens
    from kernelwright.agent.setup.few_shot_setup import FewShotSelection, exemplars_for
    from kernelwright.agent.setup.problem_lookup import one_problem
    from kernelwright.agent.setup.prompt_setup import known_facts, open_prompts
    from kernelwright.agent.setup.provider_setup import backends_of_this_machine
    from kernelwright.agent.workspace import Workspace

    settings, found = given.run_settings(), one_problem(problem)
    config, backend = settings.evaluation, (settings.backends or backends_of_this_machine())[0]
    facts = known_facts([found], config, cache)
    prompts = open_prompts(config, [backend], settings.target, facts=facts)
    chosen = FewShotSelection(
        problems=[found],
        backends=[backend],
        config=config,
        count=settings.few_shot,
        own=settings.few_shot_own,
    )
    messages = prompts.opening(found, backend, exemplars_for(Workspace(workspace), chosen, cache))
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
