"""Headroom of problems: measured once, stored, and told beside the best saved kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelwright.agent.cli.results.headroom import _best
from kernelwright.agent.records.headroom import Headroom, read_headroom, store_headroom
from kernelwright.agent.records.score_policy import TASK_SETTINGS, fit_speedup, policy_of
from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import EvaluationConfig, Math
from tests.agent.cli.conftest import Command

PROBLEM = """
import torch
SIZE = 4096
SHAPES = {"tiny": {"SIZE": 512}}
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) + 1.0
def get_inputs():
    return [torch.randn(64, SIZE)]
"""
BROKEN = PROBLEM.replace("torch.tanh(x) + 1.0", "x.no_such_method()")


def made(**more: object) -> Headroom:
    fields = {"problem": "p", "problem_sha": "s", "config": EvaluationConfig(), "device_name": "a GPU"}
    return Headroom(**{**fields, **more})  # type: ignore[arg-type]  # fields of several types


def test_problems_are_measured_once_and_what_fails_is_said(
    kernelwright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, source in (("fine", PROBLEM), ("broken", BROKEN)):
        (tmp_path / f"{name}.py").write_text(source)
    workspace, cache = tmp_path / "work", tmp_path / "cache"
    command = ("problems", "headroom", "--device", "cpu", "--shapes", "tiny", "--baselines", "eager")
    where = ("--workspace", str(workspace), "--cache", str(cache), "--json")
    result = kernelwright(*command, str(tmp_path / "fine.py"), str(tmp_path / "broken.py"), *where)
    assert result.exit_code == 1
    fine, broken = json.loads(result.stdout)
    assert "no_such_method" in broken["trouble"]
    if not fine["trouble"]:  # else other work disturbed it
        assert fine["eager_ms"] > 0
        assert fine["compile_ms"] is None
        (stored,) = read_headroom(workspace / "generated" / "headroom.jsonl")
        assert stored.eager_ms == fine["eager_ms"]
        monkeypatch.setattr("kernelwright.agent.cli.results.headroom._measured", None)
        again = kernelwright(*command, str(tmp_path / "fine.py"), *where)
        assert again.exit_code == 0
        assert json.loads(again.stdout) == [fine]


def test_a_row_takes_the_place_of_an_older_one_and_unreadable_lines_go(tmp_path: Path) -> None:
    path = tmp_path / "generated" / "headroom.jsonl"
    store_headroom(path, made(eager_ms=2.0))
    path.write_text(path.read_text() + "{}\n")
    store_headroom(path, made(problem="a", problem_sha="t", eager_ms=3.0))
    store_headroom(path, made(eager_ms=1.0))
    assert [(row.problem, row.eager_ms) for row in read_headroom(path)] == [("a", 3.0), ("p", 1.0)]


@pytest.mark.parametrize(
    ("eager", "compiled", "roofline", "factor"),
    [(4.0, 2.0, 1.0, 2.0), (4.0, None, 1.0, 4.0), (4.0, 2.0, None, None), (None, None, 1.0, None)],
)
def test_the_factor_is_that_of_the_better_baseline(
    eager: float | None, compiled: float | None, roofline: float | None, factor: float | None
) -> None:
    assert made(eager_ms=eager, compile_ms=compiled, roofline_ms=roofline).factor == factor


def test_the_best_saved_kernel_is_one_of_the_same_task_device_and_baselines() -> None:
    kernels = list(Workspace(Path(__file__).parents[3]).kernels(lambda _, error: pytest.fail(str(error))))
    kernel = next(one for one in kernels if fit_speedup(one.score) is not None)
    policy, record = policy_of(kernel.score), kernel.record
    config = EvaluationConfig(
        baselines=policy.baselines, **{name: getattr(policy, name) for name in TASK_SETTINGS}
    )
    row = made(problem_sha=record.problem_sha, device_name=policy.hardware, config=config)
    told = _best(row, kernels)
    assert float(told.partition("×")[0]) >= round(fit_speedup(kernel.score) or 0.0, 2)
    assert _best(row.model_copy(update={"device_name": "another"}), kernels) == "-"
    other = config.model_copy(update={"math": Math.TF32})
    assert _best(row.model_copy(update={"config": other}), kernels) == "-"
