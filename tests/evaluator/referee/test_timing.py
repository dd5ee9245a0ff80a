"""The reference's own process, for as long as its candidates are timed against it."""

import pytest

from evaluator import (
    Candidate,
    EvaluationConfig,
    Evaluator,
    EvaluatorError,
    ProblemError,
    Status,
    problem_from_source,
)
from evaluator.referee.timing import trusted

SOURCE = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(64, 64)]
"""


def test_a_reference_that_died_is_no_fault_of_the_next_candidate(tmp_path):
    problem = problem_from_source(SOURCE, "relu")
    candidate = Candidate(source=SOURCE.replace("class Model(", "class ModelNew("), backend="cpp")
    config = EvaluationConfig(baselines=("eager",), target_ms=5, max_turns=4, trials=1)
    with Evaluator(cache=tmp_path) as evaluator:
        assert evaluator.evaluate(problem, candidate, config).status is Status.PASSED
        (referee,) = evaluator._idle._waiting[next(iter(evaluator._idle._waiting))]
        (baseline,) = (one for one in referee._processes.values() if one.role == "baseline")
        baseline.sandboxed.kill()
        with pytest.raises(EvaluatorError, match="the reference failed beside a candidate") as raised:
            evaluator.evaluate(problem, candidate, config)
        assert not isinstance(raised.value, ProblemError)
        assert evaluator.evaluate(problem, candidate, config).status is Status.PASSED


def test_a_ratio_is_measured_anew_once_it_may_be_wrong():
    assert trusted(known_ms=1.0, error=0.01, solo_ms=1.04, most=0.05)
    assert not trusted(known_ms=1.0, error=0.01, solo_ms=1.06, most=0.05)
    assert not trusted(known_ms=1.0, error=0.01, solo_ms=0.9, most=0.05)
    assert not trusted(known_ms=1.0, error=0.2, solo_ms=1.0, most=0.05)
    assert not trusted(known_ms=None, error=None, solo_ms=1.0, most=0.05)
