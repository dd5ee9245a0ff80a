"""Features of every command: help, version, exit codes, and one line for every failure."""

from __future__ import annotations

import errno
import re

import pytest
import typer
from typer.testing import CliRunner

from kernelwright.agent.archive import ArchiveError, UnknownRun
from kernelwright.agent.cli.app import app
from kernelwright.agent.cli.terminal.failures import ExitCode, Guarded
from kernelwright.agent.records.messages import ProviderError
from kernelwright.agent.setup.usage_error import UsageError
from kernelwright.agent.workspace import UnknownKernel
from kernelwright.evaluator import ConfigError, MachineError, ProblemError
from tests.agent.cli.conftest import Command


def failing(error: BaseException) -> typer.Typer:
    """A guarded command line whose one command fails."""
    broken = typer.Typer(cls=Guarded, pretty_exceptions_enable=False)

    @broken.callback()
    def shared(debug: bool = False) -> None: ...

    @broken.command()
    def fail() -> None:
        raise error

    return broken


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageError("no such thing"), ExitCode.USAGE, "no such thing"),
        (ConfigError("unknown backend 'x'"), ExitCode.USAGE, "unknown backend 'x'"),
        (ProblemError("not\na problem"), ExitCode.USAGE, "not a problem"),
        (UnknownRun("no run r"), ExitCode.USAGE, "no run r"),
        (UnknownKernel("no kernel k"), ExitCode.USAGE, "no kernel k"),
        (FileNotFoundError(errno.ENOENT, "No such file", "ls"), ExitCode.MACHINE, "ls: No such file"),
        (ImportError("no module x"), ExitCode.MACHINE, "installation is incomplete: no module x"),
        (MachineError("no compiler"), ExitCode.MACHINE, "no compiler"),
        (ProviderError("no answer"), ExitCode.MACHINE, "no answer"),
        (ArchiveError("damaged"), ExitCode.MACHINE, "damaged"),
        (
            OSError(errno.ENOSPC, "No space left on device", "log"),
            ExitCode.MACHINE,
            "disk full while writing log",
        ),
        (RuntimeError("bug"), ExitCode.MACHINE, "internal error.*RuntimeError: bug"),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "interrupted"),
    ],
)
def test_a_failure_is_one_line_and_the_right_exit_code(error: BaseException, code: int, words: str) -> None:
    result = CliRunner().invoke(failing(error), ["fail"])
    assert result.exit_code == code
    assert result.stdout == ""
    assert re.fullmatch(f"kernelwright: .*{words}.*\n", result.stderr)


def test_debug_shows_where_it_happened() -> None:
    result = CliRunner().invoke(failing(RuntimeError("bug")), ["--debug", "fail"])
    assert result.exit_code == ExitCode.MACHINE
    assert "Traceback" in result.stderr


def test_the_version_is_printed(kernelwright: Command) -> None:
    result = kernelwright("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"kernelwright \d+\.\d+\.\d+\n", result.stdout)


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["evaluate"], ["run", "--turns", "0"]])
def test_wrong_usage_exits_with_2_and_no_traceback(kernelwright: Command, arguments: list[str]) -> None:
    result = kernelwright(*arguments)
    assert result.exit_code == ExitCode.USAGE
    assert "Traceback" not in result.output


def test_every_command_explains_itself_and_its_options(kernelwright: Command) -> None:
    commands = [info.name for info in app.registered_commands] + [info.name for info in app.registered_groups]
    assert len(commands) >= 11
    for name in commands:
        assert name is not None
        result = kernelwright(name, "--help")
        assert result.exit_code == 0
        assert re.search(r"\w\.\s", result.stdout)
