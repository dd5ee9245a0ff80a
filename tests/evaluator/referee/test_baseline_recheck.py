"""A baseline that is timed once more on a CPU, once the candidate has ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernelwright.evaluator.referee.timing.candidate_timer import CandidateTimer
from kernelwright.evaluator.schema.evaluation import Measurement, Timing
from tests.evaluator.referee.in_process import Opener, opened

__all__ = ["opened"]

PROBLEM = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""
RIGHT = PROBLEM.replace("class Model(", "class ModelNew(")


class _Alone(CandidateTimer):
    """A timer that counts how often the baseline is timed alone, and finds scripted times."""

    def __init__(self, timer: CandidateTimer, speedup: float, alone_ms: list[float]) -> None:
        vars(self).update(vars(timer))
        self._speedup, self.alone_ms = speedup, alone_ms

    def time(self, candidate: Any, second_process: Any) -> Measurement:
        super().time(candidate, second_process)
        assert self._last is not None
        baseline = self._last.baseline.model_copy(update={"median_ms": 1.0, "turn_ms": (1.0,) * 12})
        own = 1.0 / self._speedup
        timing = self._last.candidate.model_copy(update={"median_ms": own, "turn_ms": (own,) * 12})
        found = self._last.measurement.model_copy(update={"speedup": self._speedup})
        self._last = replace(self._last, candidate=timing, baseline=baseline, measurement=found)
        return found

    def time_alone(self, found: Any, count: int, queued: bool) -> Timing:
        assert self._last is not None
        alone = {"median_ms": self.alone_ms.pop(0), "spread_ms": 0.0}
        return self._last.baseline.model_copy(update=alone)


@pytest.mark.parametrize(
    ("speedup", "alone_ms", "scored"),
    [
        (0.9, [], 0.9),
        (1.5, [0.99], 1.5),
        (1.5, [0.6, 1.02], 1.5),
        (1.5, [0.6, 0.6], 0.9),
    ],
)
def test_a_score_above_one_is_against_the_baseline_without_the_candidate(
    opened: Opener,
    monkeypatch: pytest.MonkeyPatch,
    speedup: float,
    alone_ms: list[float],
    scored: float,
) -> None:
    referee = opened(PROBLEM)
    timer = _Alone(referee.problem.timer, speedup, alone_ms)
    monkeypatch.setattr(timer.baselines, "time_alone", timer.time_alone)
    referee.problem.timer = timer
    found = referee.evaluate(RIGHT).records[Measurement]
    assert isinstance(found, Measurement)
    assert found.speedup == pytest.approx(scored)
    assert not timer.alone_ms
