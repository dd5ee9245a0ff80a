"""Vetting on real processes: planted flaws are found, good and odd problems pass, scores are marked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernelwright.evaluator import (
    ADVICE,
    Candidate,
    ConfigError,
    EvaluationConfig,
    Evaluator,
    Limits,
    Problem,
    ProblemError,
    ProblemReport,
    Status,
    find_problems,
    problem_from_source,
    read_problem,
)

TESTS = Path(__file__).parents[2]
FLAWED = [read_problem(path) for path in find_problems([TESTS / "problems" / "flawed"])]
UNUSUAL = [read_problem(path) for path in find_problems([TESTS / "problems" / "unusual"])]
OURS = [read_problem(path) for path in find_problems([TESTS.parent / "reference_problems"])]

SAMPLE = (
    "constant_output",
    "identity",
    "ignores_key_bias",
    "nondeterministic_noise",
    "raises",
    "too_big",
    "too_slow",
)
UNUSUAL_SAMPLE = ("complex_output", "narrow_types", "nested_inputs", "train_batchnorm")
OUR_SAMPLE = ("level1/05_odd_size_matmul", "level3/06_small_convnet")

MODEL = """
import os, sys, torch
class {name}(torch.nn.Module):
    def forward(self, *inputs):
        x = inputs[0]
        {body}
        return x
def get_inputs():
    return [torch.randn(64, 1024)]
"""


def doing(body: str) -> Problem:
    """A problem that does one thing."""
    return problem_from_source(MODEL.format(name="Model", body=body), "one_thing")


def candidate(body: str) -> Candidate:
    """A candidate that does one thing."""
    return Candidate(source=MODEL.format(name="ModelNew", body=body), backend="cpp")


def planted(problem: Problem) -> str:
    """The flaw named by the file's first line."""
    found = re.match(r"# flaw: ([a-z_]+)\n", problem.source)
    assert found
    return found[1]


def names(vetting: ProblemReport) -> set[str]:
    return {remark.name for remark in vetting.remarks}


def sampled(problems: list[Problem], sample: tuple[str, ...]) -> list[object]:
    """All of them; those not in the sample are for the slow run."""
    return [
        pytest.param(problem, id=problem.id, marks=() if problem.id in sample else pytest.mark.slow)
        for problem in problems
    ]


def small(problem: Problem) -> EvaluationConfig:
    return EvaluationConfig(shapes="small" if "small" in problem.shapes else None, device="cpu")


@pytest.fixture(scope="module")
def evaluator(shared_cache):
    with Evaluator(cache=shared_cache) as opened:
        yield opened


@pytest.mark.parametrize("problem", sampled(FLAWED, SAMPLE))
def test_a_planted_flaw_is_found(evaluator, problem):
    vetting = evaluator.inspect(problem, small(problem))
    assert planted(problem) in names(vetting)
    assert all(remark.advice for remark in vetting.remarks)


@pytest.mark.parametrize("problem", sampled(UNUSUAL, UNUSUAL_SAMPLE))
def test_an_unusual_problem_has_no_flaw(evaluator, problem):
    assert evaluator.inspect(problem, small(problem)).flaws == ()


@pytest.mark.parametrize("problem", sampled(UNUSUAL, ("running_mean",)))
def test_a_copy_of_an_unusual_problem_passes(evaluator, problem):
    source = re.sub(r"\bModel\b", "ModelNew", problem.source)
    config = small(problem).model_copy(update={"baselines": ("eager",), "max_turns": 4, "target_ms": 1.0})
    evaluation = evaluator.evaluate(problem, Candidate(source=source, backend="cpp"), config)
    assert (evaluation.status, evaluation.detail) == (Status.PASSED, "")
    assert evaluation.problem_flaws == ()


@pytest.mark.parametrize("problem", sampled(OURS, OUR_SAMPLE))
def test_a_problem_of_ours_has_no_flaw(evaluator, problem):
    vetting = evaluator.inspect(problem, small(problem))
    assert vetting.flaws == ()
    assert vetting.measured_ms is not None
    assert vetting.memory_bytes is not None
    assert vetting.device == "cpu"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("import ctypes; ctypes.string_at(0)", "crashes"),
        ("os._exit(0)", "crashes"),
        ("os.kill(os.getpid(), 40)", "crashes"),
        ("sys.exit(0)", "raises"),
        ("x = (x > 0).view(torch.bits8)", "raises"),
        # Asks for a value first, so that it cannot be weighed.
        ("x = x.new_ones(1 << (40 + int(x.sum() > 1e30)))", "too_big"),
    ],
    ids=["segfault", "exit", "signal", "sys_exit", "bits", "memory"],
)
def test_a_problem_that_does_not_return_is_flawed_and_the_next_one_is_vetted(evaluator, body, found):
    assert names(evaluator.inspect(doing(body))) == {found}
    assert evaluator.inspect(doing("x = torch.tanh(x)")).flaws == ()


def test_a_problem_that_never_ends_is_ended(evaluator):
    endless = doing("while float(x.sum()) < 1e30: pass")
    assert names(evaluator.inspect(endless, EvaluationConfig(limits=Limits(total_s=8)))) == {"too_slow"}
    assert evaluator.inspect(doing("x = torch.tanh(x)")).flaws == ()


def test_an_unknown_shape_name_is_the_callers_mistake(evaluator):
    with pytest.raises(ConfigError, match="no shapes named"):
        evaluator.inspect(OURS[0], EvaluationConfig(shapes="colossal"))


UNTIMED = EvaluationConfig(shapes="small", measure=False)


def test_scores_of_a_vetted_problem_carry_its_flaws(tmp_path):
    right = candidate("x = x.clamp_min(0)")
    identity = next(problem for problem in FLAWED if problem.id == "identity")
    with Evaluator(cache=tmp_path) as evaluator:
        assert evaluator.evaluate(identity, right, UNTIMED).problem_flaws == ()
        evaluator.inspect(identity, UNTIMED)
        evaluation = evaluator.evaluate(identity, right, UNTIMED)
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.problem_flaws == ("identity",)


def test_scores_of_a_problem_nobody_vetted_carry_the_flaws_a_referee_sees(evaluator):
    constant = next(problem for problem in FLAWED if problem.id == "fixed_seed")
    source = (
        "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, a, b):\n        return a @ b\n"
    )
    evaluation = evaluator.evaluate(constant, Candidate(source=source, backend="cpp"), UNTIMED)
    assert "fixed_seed" in evaluation.problem_flaws


def test_every_name_has_a_way_out():
    assert all(text and text == text.strip() for text in ADVICE.values())
    assert {planted(problem) for problem in FLAWED} <= set(ADVICE)


def test_a_problem_of_random_answers_that_zeros_pass_for_is_refused(evaluator):
    source = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.dropout = nn.Linear(64, 64), nn.Linear(64, 64), nn.Dropout(0.1)
    def forward(self, x):
        return self.last(self.dropout(torch.relu(self.first(x))))
def get_inputs():
    return [torch.randn(32, 64)]
"""
    zeros = source.replace("class Model(", "class ModelNew(").replace(
        "return self.last(", "return 0 * self.last("
    )
    problem = problem_from_source(source, "dropout")
    with pytest.raises(ProblemError, match=r"zeros pass .* call eval\(\) on dropout"):
        evaluator.evaluate(problem, Candidate(source=zeros, backend="cpp"), EvaluationConfig(measure=False))


def test_inputs_that_a_reference_writes_to_are_named(evaluator):
    evaluation = evaluator.evaluate(
        doing("x.mul_(2)"), candidate("x.mul_(2)"), EvaluationConfig(measure=False)
    )
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.verification is not None
    assert evaluation.verification.effects == ("input 0",)
