"""A package of somebody else, installed from its wheel: its plugins work through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.agent.runner import read_plan
from kernelwright.agent.workspace import Workspace
from tests.agent.cli.conftest import PROBLEM

Command = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = Path(__file__).with_name("plugin_package")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages that holds theirs alone."""
    folder = tmp_path_factory.mktemp("plugin")
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist"))
    subprocess.run(build, cwd=SOURCE, check=True, capture_output=True)
    (wheel,) = (folder / "dist").iterdir()
    install = (sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-compile", "--target")
    subprocess.run((*install, str(folder / "site"), str(wheel)), check=True, capture_output=True)
    return folder / "site"


@pytest.fixture
def kernelwright(site: Path, tmp_path: Path) -> Command:
    """Runs `kernelwright` in a process that has their package installed."""
    (tmp_path / "twice.py").write_text(PROBLEM)
    hidden = ("KERNELWRIGHT_API_KEY", "OPENAI_API_KEY", "KERNELWRIGHT_BASE_URL", "OPENAI_BASE_URL")
    clean = {name: value for name, value in os.environ.items() if name not in hidden}
    environment = {**clean, "PYTHONPATH": str(site), "THEIR_KEY": "secret-of-theirs", "COLUMNS": "200"}

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "kernelwright.agent.cli", *arguments)
        return subprocess.run(
            command, cwd=tmp_path, env={**environment, **more}, capture_output=True, text=True, check=False
        )

    return run


RUN = ("run", "twice.py", "--strategy", "theirs", "--provider", "theirs", "--backend", "theirs")
EXPRESSIONS = 'provider_options.expressions = ["x * 2", "torch.addcmul(torch.ones_like(x), x, x * 0 + 2)"]'


def test_a_run_uses_a_strategy_a_provider_and_a_backend_of_theirs(
    kernelwright: Command, tmp_path: Path, shared_cache: Path
) -> None:
    policy = ("--shapes", "tiny", "--no-time", "--cache", str(shared_cache))
    (tmp_path / "own.toml").write_text('[[price]]\nmodels = ["their-*"]\ninput = "1"\noutput = "10"\n')
    settings = ("--set", EXPRESSIONS, "--set", 'options.word = "once more"', "--set", 'prices = ["own.toml"]')
    done = kernelwright(*RUN, *settings, *policy, "--max-cost", "1", "--json-lines")
    assert done.returncode == 0, done.stderr
    archive = Workspace(tmp_path).archive()
    (run,) = archive.runs()
    attempts = list(archive.attempts(run))
    assert [str(attempt.status) for attempt in attempts] == ["WRONG_VALUES", "PASSED"]
    assert {(attempt.key.strategy, attempt.key.backend) for attempt in attempts} == {("theirs", "theirs")}
    first = attempts[0].completion
    assert (first.provider, first.cost_usd) == ("theirs", 0.002)
    assert first.finish_reason == "key secret-of-theirs"
    system, question = archive.messages(first)
    assert "The first line of the module is `# theirs`" in system.content
    assert question.content.endswith("once more 0")

    resumed = kernelwright("run", "--resume", "last")
    assert resumed.returncode == 0, resumed.stderr
    board = json.loads(kernelwright("leaderboard", "--json").stdout)
    assert [entry["of"]["strategy"] for entry in board["entries"]] == ["theirs"]


def test_where_their_package_is_gone_their_run_is_still_read(
    kernelwright: Command, tmp_path: Path, shared_cache: Path
) -> None:
    done = kernelwright(*RUN, "--shapes", "tiny", "--no-time", "--cache", str(shared_cache))
    assert done.returncode == 1, done.stderr
    without = kernelwright("run", "--resume", "last", PYTHONPATH="")
    assert without.returncode != 0
    assert "no provider 'theirs'; known: mailbox, openai, openai-batch, replay" in without.stderr
    assert "theirs" in kernelwright("leaderboard", "--json", PYTHONPATH="").stdout
    with pytest.raises(Exception, match="unknown strategy 'theirs'"):
        read_plan(Workspace(tmp_path).archive(), next(iter(Workspace(tmp_path).archive().runs())))


def test_what_theirs_needs_is_said(kernelwright: Command) -> None:
    without_key = kernelwright(*RUN, THEIR_KEY="")
    assert (without_key.returncode, "set THEIR_KEY" in without_key.stderr) == (2, True)
    wrong = kernelwright(*RUN, "--set", "options.trials = 2")
    assert (wrong.returncode, "known: options.tries, options.word" in wrong.stderr) == (2, True)
    unknown = kernelwright(*RUN[:2], "--strategy", "guess")
    assert "known: evolve, refine, sample, theirs" in unknown.stderr
