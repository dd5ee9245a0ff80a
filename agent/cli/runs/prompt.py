"""`kernelwright prompt`: the first messages a model would get for a problem, with token counts."""

from __future__ import annotations

from pathlib import Path

import kernelwright as kw
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.console import notes, print_json


@options.with_settings(
    *("backends", "target", "evaluation.shapes", "evaluation.dtype", "evaluation.math", "evaluation.passes"),
    *("few_shot", "few_shot_own"),
)
def prompt(
    given: options.Given,
    problem: options.Problem,
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Print the messages that would be sent first for a problem, with token counts; asks nobody.

    The messages go to standard output, the counts to standard error. Counts are estimates. Letters
    that cannot be seen are written out; --json holds the messages as they are sent.
    """
    from kernelwright.agent.records.tokens import estimate_tokens
    from kernelwright.agent.setup.few_shot_setup import choose, read_exemplars
    from kernelwright.agent.setup.problem_lookup import one_problem
    from kernelwright.agent.setup.prompt_setup import known_facts, open_prompts
    from kernelwright.agent.setup.provider_setup import backends_of_this_machine
    from kernelwright.evaluator import visible

    settings, found, place = given.run_settings(), one_problem(problem), kw.Workspace(workspace)
    config, backend = settings.evaluation, (settings.backends or backends_of_this_machine())[0]
    facts = known_facts([found], config, cache)
    prompts = open_prompts(config, [backend], settings.target, facts=facts)
    asked = settings.model_copy(update={"backends": (backend,)})
    chosen = choose(place, asked, problems=[found], config=config, cache=cache)
    shown = read_exemplars(place, [name for names in chosen.values() for name in names])
    messages = prompts.opening(found, backend, shown)
    counts = [estimate_tokens(message.content) for message in messages]
    if json:
        print_json({"messages": messages, "estimated_tokens": counts})
        return
    for message in messages:
        print(f"=== {message.role}\n{visible(message.content)}")
    said = ", ".join(f"{message.role} {count:,}" for message, count in zip(messages, counts, strict=True))
    notes().print(f"about {sum(counts):,} tokens ({said})", style="bold")
