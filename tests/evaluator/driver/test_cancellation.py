"""An evaluation that nobody wants any more is ended, and the evaluator goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kernelwright.evaluator import (
    Cancelled,
    CancelToken,
    Candidate,
    EvaluationConfig,
    Evaluator,
    Stage,
    problem_from_source,
)

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.randn(8, 8)]
"""
CANDIDATE = "import time, torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        {}\n"
QUICK = EvaluationConfig(device="cpu", measure=False, trials=1)


def candidate(body: str) -> Candidate:
    return Candidate(source=CANDIDATE.format(body), backend="cpp")


def test_a_stopped_evaluation_ends_and_others_are_judged_as_ever(tmp_path: Path) -> None:
    problem, right = problem_from_source(PROBLEM, "plus"), candidate("return x + 1")
    late, stop = CancelToken(), CancelToken()
    killers: list[threading.Timer] = []

    def stop_once_verifying(stage: Stage) -> None:
        if stage is Stage.VERIFY and not killers:
            killers.append(threading.Timer(0.3, stop.set))
            killers[0].start()

    with Evaluator(cache=tmp_path) as evaluator:
        assert evaluator.evaluate(problem, right, QUICK, stop=late).status == "PASSED"
        # Set when it is over, a switch reaches nothing; the referee stays and is used again.
        late.set()
        with pytest.raises(Cancelled):
            evaluator.evaluate(
                problem, candidate("time.sleep(600)"), QUICK, on_stage=stop_once_verifying, stop=stop
            )
        killers[0].join()
        assert evaluator.evaluate(problem, right, QUICK).status == "PASSED"
        with pytest.raises(Cancelled):
            evaluator.evaluate(problem, right, QUICK, stop=late)
