"""Checking problems from the command line: terminal, JSON and HTML, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from kernelwright.agent.cli.evaluation.check import _check
from kernelwright.evaluator import (
    EvaluationConfig,
    Evaluator,
    EvaluatorError,
    Problem,
    ProblemReport,
    problem_from_source,
)
from tests.agent.cli.conftest import Command

SOUND = """
import torch
SIZE = 16384
SHAPES = {"tiny": {"SIZE": 8192}}
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x)
def get_inputs():
    return [torch.randn(64, SIZE)]
"""
FLAWED = SOUND.replace("torch.tanh(x)", "x * 1.0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files: a sound problem, a flawed one, and one that is none."""
    place = tmp_path / "problems"
    place.mkdir()
    (place / "sound.py").write_text(SOUND)
    (place / "flawed.py").write_text(FLAWED)
    (place / "br<b>&ken.py").write_text("class Model(:\n")
    return place


def test_a_folder_is_checked_and_reported_in_three_ways(kernelwright: Command, folder: Path) -> None:
    page = folder.parent / "report.html"
    cache = ("--cache", str(folder.parent / "cache"))
    result = kernelwright(
        "problems", "check", str(folder), "--shapes", "tiny", "--html", str(page), "--json", *cache
    )
    assert result.exit_code == 1
    found = {entry["problem"]: entry for entry in json.loads(result.stdout)}
    assert found["sound"]["flaws"] == []
    assert found["sound"]["shapes"] == "tiny"
    assert "identity" in found["flawed"]["flaws"]
    assert found["flawed"]["remarks"][0]["advice"]
    assert found["br<b>&ken"]["flaws"] == ["malformed"]
    text = page.read_text("utf-8")
    assert "1 sound, 2 flawed" in text
    assert "br&lt;b&gt;&amp;ken" in text
    assert "<b>&" not in text
    assert "http" not in text.replace("http-equiv", "")


def test_a_problem_the_evaluator_fails_on_does_not_hide_the_others() -> None:
    class Failing:
        def inspect(self, problem: Problem, config: EvaluationConfig) -> ProblemReport:
            raise EvaluatorError(f"looking at {problem.id} failed")

    failing = cast("Evaluator", Failing())  # one method of it is asked for
    vetting = _check(failing, problem_from_source(SOUND, "sound"), EvaluationConfig(device="cpu"))
    assert [(remark.name, remark.detail) for remark in vetting.flaws] == [
        ("crashes", "looking at sound failed")
    ]


def test_a_sound_problem_exits_with_zero_and_says_so(kernelwright: Command, folder: Path) -> None:
    result = kernelwright(
        "problems", "check", str(folder / "sound.py"), "--cache", str(folder.parent / "cache")
    )
    assert result.exit_code == 0, result.stdout
    assert "1 problem: 1 sound, 0 flawed" in result.stdout


def test_a_folder_without_problems_and_an_unknown_name_are_usage_errors(
    kernelwright: Command, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert kernelwright("problems", "check", str(tmp_path / "empty")).exit_code == 2
    assert kernelwright("problems", "check", "no_such_problem").exit_code == 2
