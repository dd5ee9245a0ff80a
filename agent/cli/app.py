"""The command table: names, order and the options every command shares. Imports nothing heavy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from kernelwright.agent.cli.judging import doctor, evaluate, serve, verify
from kernelwright.agent.cli.library import export, import_replies, kernels, leaderboard, package, problems
from kernelwright.agent.cli.models import experiment, generate, prompt, replay, run
from kernelwright.agent.cli.terminal.failures import Guarded

MAKE = "Make kernels"
JUDGE = "Judge kernels"
LOOK = "Look around"

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
        typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="KERNELWRIGHT_DEBUG", help="Show tracebacks of failures.")
    ] = False,
) -> None:
    """Options of every command; the guard reads `debug` from the context."""


def _add(name: str, command: Callable[..., None], panel: str) -> None:
    app.command(name, rich_help_panel=panel, help=_paragraphs(command))(command)


def _paragraphs(command: Callable[..., None]) -> str:
    # Typer keeps the line breaks of a docstring; a terminal is not as wide as our source.
    text = inspect.cleandoc(command.__doc__ or "")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


_add("run", run.run, MAKE)
_add("generate", generate.generate, MAKE)
_add("experiment", experiment.experiment, MAKE)
_add("import", import_replies.import_files, MAKE)
_add("replay", replay.replay, MAKE)
_add("evaluate", evaluate.evaluate, JUDGE)
_add("verify", verify.verify, JUDGE)
_add("serve", serve.serve, JUDGE)
_add("leaderboard", leaderboard.leaderboard, LOOK)
_add("export", export.export, LOOK)
_add("package", package.package, LOOK)
app.add_typer(kernels.app, name="kernels", rich_help_panel=LOOK)
_add("show", kernels.show, LOOK)
app.add_typer(problems.app, name="problems", rich_help_panel=LOOK)
_add("prompt", prompt.prompt, LOOK)
_add("doctor", doctor.doctor, LOOK)
