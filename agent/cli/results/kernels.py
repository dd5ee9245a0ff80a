"""`kernelwright kernels`: saved kernels, listed, shown and removed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

import kernelwright as kw
from kernelwright.agent.cli.evaluation.evaluation_card import card
from kernelwright.agent.cli.results.attempts_command import conversation, print_conversation
from kernelwright.agent.cli.results.runs import Yes, confirm
from kernelwright.agent.cli.terminal import completion, console, options
from kernelwright.agent.cli.terminal.console import line
from kernelwright.agent.cli.terminal.failures import say, say_once
from kernelwright.agent.records.durations import milliseconds

app = typer.Typer(no_args_is_help=True, help="List, show and remove saved kernels.")

KernelName = Annotated[
    str,
    options.argument("A kernel's id, or a unique prefix of it.", "KERNEL", autocompletion=completion.kernels),
]
KernelNames = Annotated[
    list[str],
    options.argument("Ids of kernels, or unique prefixes.", "KERNEL...", autocompletion=completion.kernels),
]


@app.command("list")
def list_kernels(
    workspace: options.Workspace = Path(),
    problem: options.ProblemFilter = None,
    backend: options.BackendFilter = None,
    model: options.ModelFilter = None,
    min_speedup: Annotated[float, options.option("Only kernels at least this fast.")] = 0.0,
    json: options.Json = False,
) -> None:
    """List saved kernels, a table for each policy of their scores, fastest first within a problem."""
    from kernelwright.agent.records.score_policy import fit_speedup, policy_of

    kernels = [
        kernel
        for kernel in kw.Workspace(workspace).kernels(lambda _, error: say(f"left out: {error}"))
        if (not problem or any(part in kernel.record.problem for part in problem))
        and (not backend or kernel.record.backend in backend)
        and (not model or kernel.record.provenance.model in model)
        and (fit_speedup(kernel.score) or 0.0) >= min_speedup
    ]
    kernels.sort(key=lambda kernel: (kernel.record.problem, -(fit_speedup(kernel.score) or 0.0)))
    if json:
        console.print_json([_summary(kernel) for kernel in kernels])
    elif not kernels:
        console.out().print(f"no such kernels below {workspace.resolve() / 'generated'}")
    else:
        console.print_policy_tables(
            "kernel problem backend >speedup >95_% over >time by",
            [(policy_of(kernel.score), _row(kernel), "") for kernel in kernels],
        )


@app.command("show")
def show(kernel: KernelName, workspace: options.Workspace = Path(), json: options.Json = False) -> None:
    """Show a saved kernel: its conversation, its source, its score and where it came from."""
    place = kw.Workspace(workspace)
    saved = place.kernel(kernel)
    try:
        said, trouble = _conversation(place.archive(say_once()), saved), ""
    except kw.ArchiveError as error:
        said, trouble = None, str(error)
    if json:
        whole = {"source": saved.source, "record": saved.record, "conversation": said}
        console.print_json(_summary(saved) | whole)
        return
    console.print_source(saved.source)
    console.out().print(card(saved.score))
    origin = saved.record.provenance.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    findings = saved.screening().findings
    screened = [("screening", f"line {finding.line or '-'}: {finding.message}") for finding in findings]
    console.print_lines([*origin.items(), ("folder", saved.folder), *screened], 13)
    if said is None:
        console.out().print(f"conversation not here: {line(trouble)}", soft_wrap=True)
    else:
        # The reply repeats the source, which stands above.
        *asked, reply = said
        content = reply["content"].replace(saved.source.strip(), "[the source above]")
        print_conversation([*asked, reply | {"content": content}])


@app.command("rm")
def remove_kernels(kernels: KernelNames, workspace: options.Workspace = Path(), yes: Yes = False) -> None:
    """Remove saved kernels with all their scores; runs that made them stay."""
    place = kw.Workspace(workspace)
    for kernel in [place.kernel(name) for name in dict.fromkeys(kernels)]:
        if confirm(f"kernel {kernel.id} of {kernel.record.problem}", kernel.folder, yes):
            shutil.rmtree(kernel.folder)
            say(f"removed kernel {kernel.id}")


def _conversation(archive: kw.Archive, kernel: kw.Kernel) -> list[dict[str, str]]:
    made = kernel.record.provenance
    if made.run is None or made.run not in archive.runs():
        raise kw.ArchiveError(f"its run {made.run or ''} is not here".replace("  ", " "))
    found = next((attempt for attempt in archive.attempts(made.run) if attempt.id == made.attempt), None)
    if found is None:
        raise kw.ArchiveError(f"run {made.run} holds no attempt {made.attempt}")
    return conversation(archive, found)


def _row(kernel: kw.Kernel) -> list[str]:
    from kernelwright.agent.records.score_policy import exclusion_reason

    best, record, told = kernel.score, kernel.record, ["-"] * 4
    if measured := best.measurement:
        interval = f"{measured.interval.low:.2f}–{measured.interval.high:.2f}"
        speedup = f"{measured.speedup:.2f}×{'‡' if exclusion_reason(best) else ''}"
        told = [speedup, interval, measured.against, milliseconds(measured.candidate.median_ms)]
    return [kernel.id, record.problem, record.backend, *told, record.provenance.model or "-"]


def _summary(kernel: kw.Kernel) -> dict[str, object]:
    from kernelwright.agent.records.score_policy import exclusion_reason, fit_speedup, policy_of

    best = kernel.score
    measured = best.measurement
    return {
        "kernel": kernel.id,
        "problem": kernel.record.problem,
        "backend": kernel.record.backend,
        "model": kernel.record.provenance.model,
        "speedup": fit_speedup(best),
        "unfit": exclusion_reason(best),
        "interval": measured.interval.model_dump() if measured else None,
        "against": list(measured.baselines) if measured else None,
        "policy": policy_of(best).id,
        "terms": str(policy_of(best)),
        "scores": len(kernel.record.scores),
        "device": best.environment.device_name if best.environment else None,
        "folder": str(kernel.folder),
    }
