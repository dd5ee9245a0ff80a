"""The command table: names, order and the options every command shares. Imports nothing heavy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.agent.cli.evaluation import cluster, daemon, doctor, evaluate, serve, verify
from kernelwright.agent.cli.results import (
    attempts_command,
    cache,
    export,
    import_replies,
    kernels,
    leaderboard,
    package,
    problems,
    runs,
)
from kernelwright.agent.cli.runs import experiment, generate, prompt, replay, run
from kernelwright.agent.cli.terminal.failures import Guarded
from kernelwright.agent.cli.terminal.options import flag, option
from kernelwright.agent.setup.usage_error import UsageError

MAKE, EVALUATE, INSPECT, EXPORT = "Make kernels", "Evaluate", "Inspect", "Compare and export"

app = typer.Typer(
    cls=Guarded,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Turn PyTorch reference models into faster kernels with an LLM, and prove every score.",
    epilog="Exit status: 0 passed, 1 did not pass, 2 usage, 3 machine or evaluator failure, 130 interrupted.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"kernelwright {version('kernelwright')}")
        raise typer.Exit


@app.callback()
def _every_command(
    version: Annotated[
        bool,
        option(
            "Print the version.", *("--version", "-V"), metavar="", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[
        bool, flag("Show tracebacks of failures.", "--debug", envvar="KERNELWRIGHT_DEBUG")
    ] = False,
    trace: Annotated[
        Path | None,
        option(
            "Write what evaluations do and wait for, for https://ui.perfetto.dev; uses no daemon.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Options of every command; the guard reads `debug` from the context."""
    if trace is not None:
        from kernelwright.evaluator import begin_trace

        try:
            begin_trace(trace)
        except OSError as error:
            raise UsageError(f"cannot write the trace {trace}: {error.strerror}") from None


def _add(name: str, command: Callable[..., None], panel: str, *examples: str, is_alias: bool = False) -> None:
    # Typer joins the lines of an epilog; a blank line between examples keeps them apart.
    epilog = "\n\n".join(f"kernelwright {name} {example}".rstrip() for example in examples)
    shown = f"Examples:\n\n{epilog}" if examples else None
    help = _paragraphs(command)
    app.command(name, rich_help_panel=panel, help=help, epilog=shown, hidden=is_alias)(command)


def _paragraphs(command: Callable[..., None]) -> str:
    # Typer keeps the line breaks of a docstring; a terminal is not as wide as our source.
    text = inspect.cleandoc(command.__doc__ or "")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


_add(
    *("run", run.run, MAKE),
    "09_softmax --model gpt-5 --turns 6 --max-cost 5",
    "level1 -b cpp --shapes small",
    "--resume last",
)
_add(
    *("generate", generate.generate, MAKE),
    "level1 -m gpt-5 -n 16 --evaluate",
    "all -m gpt-5 -n 64 --batch-api --no-wait",
    "--resume last",
)
_add(
    *("experiment", experiment.experiment, MAKE),
    "level1 -m gpt-5 --attempts 8",
    "level1 -m gpt-5 -s refine -s evolve --cost 0.5",
    "--resume last --json",
)
_add(
    *("import", import_replies.import_files, MAKE),
    "replies.jsonl -p level1 --evaluate",
    "KERNELBENCH_RUN -p KernelBench/level1",
    "kernel.md -p 09_softmax -m handwritten --evaluate",
)
_add("replay", replay.replay, MAKE, "", "--folder prompts/recordings --port 8000")
_add(
    *("evaluate", evaluate.evaluate, EVALUATE),
    "my_kernel.py -p 09_softmax",
    "my_kernel.py -p my_problem.py --shapes small --no-time",
    "- -p 23_swish -b cpp --json < my_kernel.py",
)
_add("verify", verify.verify, EVALUATE, "", "3f2a --keep", "--workers 4 --results verified.jsonl")
kernels.app.command("rescore", help=_paragraphs(verify.rescore))(verify.rescore)
_add(
    *("serve", serve.serve, EVALUATE),
    "",
    "level1 --device cuda:0 --device cuda:1",
    "--host 0.0.0.0 --port 80 --retain 30d",
)
app.add_typer(daemon.app, name="daemon", rich_help_panel=EVALUATE)
app.add_typer(cluster.app, name="cluster", rich_help_panel=EVALUATE)
_add("doctor", doctor.doctor, EVALUATE, "", "--json")
app.add_typer(runs.app, name="runs", rich_help_panel=INSPECT)
app.add_typer(attempts_command.app, name="attempts", rich_help_panel=INSPECT)
app.add_typer(kernels.app, name="kernels", rich_help_panel=INSPECT)
app.add_typer(problems.app, name="problems", rich_help_panel=INSPECT)
app.add_typer(cache.app, name="cache", rich_help_panel=INSPECT)
_add("show", kernels.show, INSPECT, is_alias=True)
_add(
    *("prompt", prompt.prompt, INSPECT),
    "09_softmax",
    "09_softmax -b triton --target h200",
    "my_problem.py --few-shot 2 --json",
)
_add(
    *("leaderboard", leaderboard.leaderboard, EXPORT),
    "--html board.html",
    "--run last",
    "--compare RUN_A RUN_B",
)
_add(
    *("export", export.export, EXPORT),
    "sft -o data/sft --min-speedup 1",
    "preference -o data/pairs --pair-by problem",
    "kernelbench -o kernelbench --run last",
)
_add("package", package.package, EXPORT, "3f2a 77c1 -o my_kernels", "3f2a -o my_kernels --name fast-softmax")
