"""Exit codes, and the one place where an exception becomes a line and an exit code."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from kernelwright.agent.cli.terminal.console import plain


class ExitCode(IntEnum):
    """What the command's exit status says."""

    PASSED = 0
    DID_NOT_PASS = 1
    USAGE = 2
    MACHINE = 3
    INTERRUPTED = 130


class Usage(Exception):
    """The user asked for something that cannot be: a missing file, contradictory options."""


def did_pass(passed: bool) -> typer.Exit:
    """The exit that says whether what was judged passed."""
    return typer.Exit(ExitCode.PASSED if passed else ExitCode.DID_NOT_PASS)


class Guarded(TyperGroup):
    """A command group that turns every failure into one line on standard error and the right exit code."""

    def invoke(self, ctx: Any) -> Any:  # Any: typer's own context class moved between its releases
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


def say(line: str) -> None:
    """Print one line for people on standard error, without what a stranger's name could do to a terminal."""
    print(f"kernelwright: {plain(line)}", file=sys.stderr, flush=True)


def say_once() -> Callable[[str], None]:
    """A way to say lines for people, each only the first time."""
    said: set[str] = set()

    def tell(line: str) -> None:
        if line not in said:
            said.add(line)
            say(line)

    return tell


def exit_code(error: BaseException) -> ExitCode:
    """Whose failure an exception is, as an exit status."""
    from kernelwright.agent.archive import UnknownRun
    from kernelwright.agent.interop.imports import UnreadableImport
    from kernelwright.agent.workspace import UnknownKernel
    from kernelwright.evaluator import ConfigError, ProblemError

    match error:
        case Usage() | ConfigError() | ProblemError() | UnknownRun() | UnknownKernel() | UnreadableImport():
            return ExitCode.USAGE
        case _:
            return ExitCode.MACHINE


def describe(error: BaseException) -> str:
    """One line that names the value and the way out."""
    if isinstance(error, ImportError):
        return f"this installation is incomplete: {error}; install kernelwright again"
    from kernelwright.agent.archive import ArchiveError
    from kernelwright.agent.interop.imports import UnreadableImport
    from kernelwright.agent.records.messages import ProviderError
    from kernelwright.evaluator import EvaluatorError

    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = f" while writing {error.filename}" if error.filename else ""
        return f"disk full{place}; free some space and try again; a run goes on with --resume"
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    if isinstance(error, (Usage, UnreadableImport, EvaluatorError, ProviderError, ArchiveError)):
        return " ".join(str(error).split())
    cause = " ".join(str(error).split()) or "no message"
    return f"internal error, nothing was scored: {type(error).__name__}: {cause} (--debug shows where)"


def _is_parsing_error(error: Exception) -> bool:
    # Click's own usage errors print themselves and exit with 2; the class moved between typer's releases.
    return hasattr(error, "exit_code") and hasattr(error, "show")
