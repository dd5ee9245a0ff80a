"""A command line run in this process, as a shell would see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agent.cli.app import app
from agent.cli.endpoint import KEY_VARIABLES, URL_VARIABLES

Command = Callable[..., Result]


@pytest.fixture
def kernelwright(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `kernelwright` in an empty folder, with no key and no endpoint in the environment."""
    for name in (*KEY_VARIABLES, *URL_VARIABLES, "KERNELWRIGHT_WORKSPACE", "KERNELWRIGHT_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return runner.invoke(app, list(arguments), input=stdin, prog_name="kernelwright")

    return run
