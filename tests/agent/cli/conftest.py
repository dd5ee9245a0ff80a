"""A command line run in this process, as a shell would see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kernelwright.agent.cli.app import app
from kernelwright.agent.setup.credentials import KEY_VARIABLES, URL_VARIABLES

Command = Callable[..., Result]
Quick = tuple[str, ...]
"""Arguments of a run that is over soon."""


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


PROBLEM = '''
"""Twice its input, plus one."""
import torch

SIZE = 4096
SHAPES = {"tiny": {"SIZE": 33}}


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1


def get_inputs():
    return [torch.randn(8, SIZE)]


def get_init_inputs():
    return []
'''

MODEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return {}\n"


ESCAPING = """
try:
    open({!r}, "w").close()
except OSError:
    pass
"""
"""Leaves a file outside, unless a sandbox holds it."""


def block(expression: str) -> str:
    """A reply with one module."""
    return f"Here it is.\n\n```python\n{MODEL.format(expression)}```\n"


def without(arguments: Quick, *options: str) -> Quick:
    """The arguments without these options and their values."""
    left = list(arguments)
    for option in options:
        place = left.index(option)
        del left[place : place + 2]
    return tuple(left)


@pytest.fixture
def quick(tmp_path: Path, shared_cache: Path) -> Quick:
    """Arguments of a run that is over soon: one small problem, answered wrongly, then rightly."""
    (tmp_path / "twice.py").write_text(PROBLEM)
    replies = tmp_path / "replies" / "twice" / "cpp"
    replies.mkdir(parents=True)
    (replies / "00.md").write_text(block("x * 2"))
    (replies / "01.md").write_text(block("torch.addcmul(torch.ones_like(x), x, torch.full_like(x, 2))"))
    problem, recordings = str(tmp_path / "twice.py"), str(tmp_path / "replies")
    policy = ("--shapes", "tiny", "--no-time", "--cache", str(shared_cache))
    return (problem, "--backend", "cpp", "--turns", "2", "--recordings", recordings, *policy)
