"""On a GPU the reference is compiled beside candidates, and measured beside none."""

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
    """The reference is compiled beside candidates, and baselines are measured beside none; says when."""
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


def test_while_the_reference_is_compiled_a_wrong_candidate_ends_and_a_right_one_starts_again(
    opened: Opener, as_on_a_gpu: list[str]
) -> None:
    referee = opened(PROBLEM, baselines=("eager", "compile"))
    asked = referee.driver.asked
    wrong = referee.evaluate(WRONG)
    assert (wrong.status, wrong.stage, as_on_a_gpu) == (Status.WRONG_VALUES, Stage.VERIFY, [])
    starts = [ask.role for ask in asked if isinstance(ask, driver_requests.Start)]
    assert starts == ["baseline", "candidate"]
    assert isinstance(asked[-2], driver_requests.Freeze), "compiling rests"

    before = len(asked)
    right = referee.evaluate(RIGHT)
    assert (right.status, right.detail, as_on_a_gpu) == (Status.PASSED, "", ["baselines"])
    starts = [ask.role for ask in asked[before:] if isinstance(ask, driver_requests.Start)]
    assert (starts[0], starts[-1]) == ("candidate", "timed"), "one process was verified, another one is timed"
    ended = next(ask for ask in asked[before:] if isinstance(ask, driver_requests.Kill))
    held = next(ask for ask in asked if isinstance(ask, driver_requests.Hold) and ask.exclusive)
    assert asked.index(ended) < asked.index(held), "no candidate lives while baselines are measured"
    found = right.records[Measurement]
    assert isinstance(found, Measurement)
    assert set(found.baselines) == {"eager", "compile"}

    assert referee.evaluate(RIGHT).status is Status.PASSED
    starts = [ask.role for ask in asked if isinstance(ask, driver_requests.Start)]
    assert (starts[-1], as_on_a_gpu) == ("candidate", ["baselines"]), "once they are known, one process does"
