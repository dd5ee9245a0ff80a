"""A KernelBench run folder of our own kernels: imported, judged by the evaluator, handed back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.agent.cli.app import app

PROBLEMS = {
    13: ("x", "x.mean(dim=-1)", "mean.cpp"),
    16: ("x", "x.cumsum(dim=-1)", "scan.cpp"),
    22: ("x", "torch.nn.functional.gelu(x)", "gelu.cpp"),
    24: ("a, b, c", "torch.relu(a * b + c)", "relu.cpp"),
    26: ("x, mask", "x.masked_fill(mask, -2.5)", "fill.cpp"),
}
"""Inputs of `forward`, its outputs, and the kernel's file beside this one, by number."""
SOURCES = Path(__file__).parent / "sources"

PLAIN = """# sample {sample}
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, *settings):
        super().__init__()

    def forward(self, {taken}):
        {body}
"""
BUILT = '''# sample {sample}
import torch
from torch.utils.cpp_extension import load_inline

source = r"""
{source}"""
module = load_inline("sample_{sample}", cpp_sources=source, functions=["run"], extra_cflags=["{level}"])


class ModelNew(torch.nn.Module):
    def __init__(self, *settings):
        super().__init__()

    def forward(self, {taken}):
        return module.run({taken})
'''
KINDS = 10
RIGHT, UNBUILT = {0, 4, 7, 9}, {3, 6}
"""By the last digit of a sample: which ones are right, and which ones no module comes of."""


def candidate(number: int, sample: int) -> str:
    """Right, wrong or broken, each a text of its own."""
    taken, answer, file = PROBLEMS[number]
    kind = sample % KINDS
    bodies = {
        0: f"return {answer}",
        1: f"return {answer} * 1.01",
        2: "raise ValueError('later')",
        3: "return (",
    }
    if kind in bodies:
        return PLAIN.format(sample=sample, taken=taken, body=bodies[kind])
    source = (SOURCES / file).read_text()
    changes = {5: ("LEFT_OUT", "1"), 6: ("return", "retrun"), 8: ("SCALE", "1.01f")}
    source = source.replace(*changes.get(kind, ("", "")))
    source = source.replace("LEFT_OUT", "0").replace("SCALE", "1.0f")
    level = "-O3" if kind == 9 else "-O2"
    return BUILT.format(sample=sample, source=source, level=level, taken=taken)


def write(run: Path, numbers: list[int], samples: int) -> dict[str, str]:
    """A run folder as theirs are, results included: names and texts of its candidates."""
    run.mkdir()
    sources = {
        f"level_1_problem_{number}_sample_{sample}_kernel.py": candidate(number, sample)
        for number in numbers
        for sample in range(samples)
    }
    for name, text in sources.items():
        (run / name).write_text(text)
    result = {"compiled": True, "correctness": True, "metadata": {}, "runtime": -1.0, "runtime_stats": {}}
    theirs = {
        str(number): [{"sample_id": sample, **result} for sample in range(samples)] for number in numbers
    }
    (run / "eval_results.json").write_text(json.dumps(theirs))
    return sources


@pytest.mark.parametrize(
    ("numbers", "samples"),
    [([22, 24], 4), pytest.param(list(PROBLEMS), 20, marks=pytest.mark.slow)],
    ids=["8", "100"],
)
def test_names_ids_and_correctness_survive_judging(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shared_cache: Path,
    numbers: list[int],
    samples: int,
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_WORKSPACE", str(tmp_path / "work"))
    sources = write(tmp_path / "their-run", numbers, samples)
    judge = ["--evaluate", "--no-time", "--shapes", "odd", "--baselines", "eager", "--sanitize", "off"]
    more = ["--backend", "cpp", "--cache", str(shared_cache), "--no-plain-build", "--json"]
    done = CliRunner().invoke(
        app, ["import", str(tmp_path / "their-run"), "--problem", "level1", *judge, *more]
    )
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["export", "kernelbench", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    (folder,) = (tmp_path / "out" / "runs").iterdir()
    assert {file.name: file.read_text() for file in folder.glob("*.py")} == sources
    results = json.loads((folder / "eval_results.json").read_text())
    found = {
        (int(number), row["sample_id"]): (row["compiled"], row["correctness"])
        for number, rows in results.items()
        for row in rows
    }
    assert found == {
        (number, sample): (sample % KINDS not in UNBUILT, sample % KINDS in RIGHT)
        for number in numbers
        for sample in range(samples)
    }
