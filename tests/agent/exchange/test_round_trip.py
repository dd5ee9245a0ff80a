"""A KernelBench run folder of one hundred candidates: imported, judged by the evaluator, handed back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli.app import app

CONSTANTS = {1: 3, 2: 5, 11: 7, 20: 9, 100: 11}
SAMPLES = 20

PROBLEM = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * {constant} + 1


def get_inputs():
    return [torch.randn(32, 33)]


def get_init_inputs():
    return []
"""
CANDIDATE = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return {answer}
"""


def answer(constant: int, sample: int) -> str:
    """Right for even samples; each a source of its own."""
    return f"torch.add(1, x, alpha={constant}) + {0 if sample % 2 == 0 else sample}  # {sample}"


def write(folder: Path) -> tuple[Path, Path]:
    problems, run = folder / "level1", folder / "their-run"
    problems.mkdir()
    run.mkdir()
    for number, constant in CONSTANTS.items():
        (problems / f"{number}_scale_by_{constant}.py").write_text(PROBLEM.format(constant=constant))
        for sample in range(SAMPLES):
            name = f"level_1_problem_{number}_sample_{sample}_kernel.py"
            (run / name).write_text(CANDIDATE.format(answer=answer(constant, sample)))
    return problems, run


@pytest.mark.slow
def test_names_ids_and_correctness_survive_judging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_WORKSPACE", str(tmp_path / "work"))
    problems, run = write(tmp_path)
    judge = ["--evaluate", "--no-time", "--baselines", "eager", "--backend", "cpp", "--json"]
    done = CliRunner().invoke(app, ["import", str(run), "--problem", str(problems), *judge])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["export", "kernelbench", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    (folder,) = (tmp_path / "out" / "runs").iterdir()
    assert {file.name: file.read_text() for file in folder.glob("*.py")} == {
        file.name: file.read_text() for file in run.iterdir()
    }
    results = json.loads((folder / "eval_results.json").read_text())
    assert {
        (int(number), row["sample_id"]): row["correctness"]
        for number, rows in results.items()
        for row in rows
    } == {(number, sample): sample % 2 == 0 for number in CONSTANTS for sample in range(SAMPLES)}
