"""Exit codes, and the one place where an exception becomes a line and an exit code."""

from __future__ import annotations

import errno
import logging
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import typer
from typer.core import TyperGroup

import kernelwright as kw
from kernelwright.agent.cli.terminal.console import line
from kernelwright.agent.setup.usage_error import UsageError

LOGGERS: Final = ("kernelwright.agent.setup", "kernelwright.agent.evaluation")
"""The loggers of the composition and of judges elsewhere, whose messages are lines for people here."""


class ExitCode(IntEnum):
    """Exit statuses of every command."""

    PASSED = 0
    DID_NOT_PASS = 1
    USAGE = 2
    MACHINE = 3
    INTERRUPTED = 130


def did_pass(passed: bool) -> typer.Exit:
    """The exit for a check that passed or did not."""
    return typer.Exit(ExitCode.PASSED if passed else ExitCode.DID_NOT_PASS)


class Guarded(TyperGroup):
    """A command group that turns every failure into one line on standard error and an exit code."""

    def main(self, *arguments: Any, **named: Any) -> Any:  # Any: as typer's own
        """Run the command line; errors of usage look like all others."""
        is_program = named.pop("standalone_mode", True)
        _let_setup_speak()
        try:
            code = super().main(*arguments, **(named | {"standalone_mode": False}))
        except Exception as error:
            if not _is_parsing_error(error):
                raise
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()  # type: ignore[attr-defined]  # prints the help
            else:
                say(_parsing_problem(error))
            code = ExitCode.USAGE
        if not is_program:
            return code
        return sys.exit(code if isinstance(code, int) else ExitCode.PASSED)

    def invoke(self, ctx: Any) -> Any:  # Any: typer's own context class moved between its releases
        """Run the command, and turn what it raises into an exit code."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except Exception as error:
            if _is_parsing_error(error) or isinstance(error, BrokenPipeError):
                raise
            code = ExitCode.MACHINE if isinstance(error, ImportError) else exit_code(error)
            if ctx.params.get("debug"):
                traceback.print_exception(error, file=sys.stderr)
            else:
                say(describe(error))
            raise typer.Exit(code) from None


class _Speaker(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def _let_setup_speak() -> None:
    for logger in map(logging.getLogger, LOGGERS):
        logger.handlers, logger.propagate = [_Speaker()], False
        logger.setLevel(logging.INFO)


def say(text: str) -> None:
    """Print one line for people on standard error, without what a stranger's name could do to a terminal."""
    print(f"kernelwright: {line(text)}", file=sys.stderr, flush=True)


def say_once() -> Callable[[str], None]:
    """A way to say lines for people, each only the first time."""
    said: set[str] = set()

    def tell(text: str) -> None:
        if text not in said:
            said.add(text)
            say(text)

    return tell


def exit_code(error: BaseException) -> ExitCode:
    """The exit status of an exception."""
    from kernelwright.agent.interop.imports import UnreadableImport

    usage = (UsageError, kw.ConfigError, kw.ProblemError, kw.UnknownRun, kw.UnknownKernel, UnreadableImport)
    return ExitCode.USAGE if isinstance(error, usage) else ExitCode.MACHINE


def describe(error: BaseException) -> str:
    """One line that names the value and the way out."""
    if isinstance(error, ImportError):
        return f"this installation is incomplete: {error}; install kernelwright again"
    from kernelwright.agent.interop.imports import UnreadableImport

    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = f" while writing {error.filename}" if error.filename else ""
        return f"disk full{place}; free some space and try again; a run goes on with --resume"
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    if isinstance(
        error, (UsageError, UnreadableImport, kw.EvaluatorError, kw.ProviderError, kw.ArchiveError)
    ):
        return " ".join(str(error).split())
    cause = " ".join(str(error).split()) or "no message"
    return f"internal error, nothing was scored: {type(error).__name__}: {cause} (--debug shows where)"


def _is_parsing_error(error: Exception) -> bool:
    # Click's usage errors; their class moved between typer's releases.
    return hasattr(error, "exit_code") and hasattr(error, "format_message")


def _parsing_problem(error: Any) -> str:  # Any: as above
    text = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    way_out = f"`{context.command_path} --help` lists what there is" if context else ""
    text += " " if text.endswith("?") else "; "
    return text[:1].lower() + text[1:] + way_out
