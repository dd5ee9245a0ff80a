"""On a GPU the reference is compiled, and measured, before its candidates."""

from __future__ import annotations

from typing import Any

import pytest

from kernelwright.evaluator.ipc import driver_requests
from kernelwright.evaluator.referee.open_problem import OpenProblem
from kernelwright.evaluator.referee.timing.baseline import compiled_reference
from kernelwright.evaluator.referee.timing.baseline.baseline_timer import BaselineTimer
from kernelwright.evaluator.schema.evaluation import Measurement, Stage, Status
from tests.evaluator.referee.in_process import Opener, opened

__all__ = ["opened"]

PROBLEM = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64))
    def forward(self, x):
        return torch.relu(x * self.weight)
def get_inputs():
    return [torch.randn(64, 64)]
"""
RIGHT = PROBLEM.replace("class Model(", "class ModelNew(")
WRONG = RIGHT.replace("return torch.relu(x * self.weight)", "return x")


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Baselines are measured as on a GPU; says when."""
    done: list[str] = []
    measure = BaselineTimer.measure

    def noted(timer: BaselineTimer) -> Any:
        if not timer.known:
            done.append("baselines")
        return measure(timer)

    monkeypatch.setattr(OpenProblem, "on_gpu", property(lambda problem: True))
    monkeypatch.setattr(OpenProblem, "free_memory", lambda problem: None)
    monkeypatch.setattr(BaselineTimer, "measure", noted)
    monkeypatch.setattr(compiled_reference, "replace", lambda made, **changes: made)
    return done


def test_baselines_are_measured_once_and_before_any_candidate_lives(
    opened: Opener, as_on_a_gpu: list[str]
) -> None:
    referee = opened(PROBLEM, baselines=("eager", "compile"))
    asked = referee.driver.asked
    wrong = referee.evaluate(WRONG)
    assert (wrong.status, wrong.stage) == (Status.WRONG_VALUES, Stage.VERIFY)
    assert as_on_a_gpu == ["baselines"]
    alone = [isinstance(ask, driver_requests.Hold) and ask.exclusive for ask in asked].index(True)
    candidate = next(
        number
        for number, ask in enumerate(asked)
        if isinstance(ask, driver_requests.Start) and ask.role == "candidate"
    )
    assert alone < candidate
    assert any(isinstance(ask, driver_requests.Release) for ask in asked[alone:candidate])

    before = len(asked)
    right = referee.evaluate(RIGHT)
    assert (right.status, right.detail, as_on_a_gpu) == (Status.PASSED, "", ["baselines"])
    roles = [ask.role for ask in asked[before:] if isinstance(ask, driver_requests.Start)]
    assert roles[0] == "candidate", "the same process is verified and timed"
    assert "timed" not in roles
    found = right.records[Measurement]
    assert isinstance(found, Measurement)
    assert set(found.baselines) == {"eager", "compile"}
