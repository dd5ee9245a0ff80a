"""Gradients as part of a call: right ones pass, wrong, missing, cut and remembered ones do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.evaluator import (
    Candidate,
    Evaluation,
    EvaluationConfig,
    Evaluator,
    Passes,
    ProblemError,
    Status,
)
from kernelwright.evaluator.schema.problem import Problem, problem_from_source, read_problem

HONEST = Path(__file__).parents[1] / "corpus" / "honest"
REFERENCES = Path(__file__).parents[2] / "reference_problems"
PROBLEM = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x, index):
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * self.weight, index + 1


def get_inputs():
    return [torch.randn(96, 40), torch.arange(7)]


def get_init_inputs():
    return [40]
"""
RIGHT = """import torch
from torch import nn


class Normal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
        ctx.save_for_backward(x, weight, scale)
        return x * scale * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight, scale = ctx.saved_tensors
        normal, pulled = x * scale, grad * weight
        grad_x = scale * (pulled - normal * (pulled * normal).mean(dim=-1, keepdim=True))
        grad_weight = (grad * normal).sum(dim=0)
        return grad_x, grad_weight


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x, index):
        return Normal.apply(x, self.weight), index + 1
"""
RENAMED = RIGHT.replace("self.weight", "self.gain")
MARKING = RIGHT.replace(
    "        return Normal.apply",
    "        if torch.is_grad_enabled():\n"
    "            assert x.grad is None and x._backward_hooks is None and x.is_leaf\n"
    "            x.grad = torch.ones_like(x)\n"
    "            x.register_hook(lambda grad: grad * 1.0)\n"
    "        return Normal.apply",
)
WRONG_INPUT = RIGHT.replace("- normal * (pulled", "- 0.5 * normal * (pulled")
ZERO = RIGHT.replace("return grad_x, grad_weight", "return grad_x, torch.zeros_like(weight)")
REMEMBERED = RIGHT.replace(
    "        return grad_x, grad_weight",
    "        Normal.kept = getattr(Normal, 'kept', (grad_x, grad_weight))\n        return Normal.kept",
)
CUT = RIGHT.replace("Normal.apply(x, self.weight)", "Normal.apply(x.detach(), self.weight.detach())")
CUT_INPUT = RIGHT.replace("Normal.apply(x, self.weight)", "Normal.apply(x.detach(), self.weight)")
BUFFER = RIGHT.replace(
    "self.weight = nn.Parameter(1.0 + 0.3 * torch.randn(features))",
    "self.register_buffer('weight', 1.0 + 0.3 * torch.randn(features))",
)


@pytest.fixture(scope="module")
def evaluator(shared_cache: Path) -> Iterator[Evaluator]:
    with Evaluator(cache=shared_cache) as shared:
        yield shared


def judged(
    evaluator: Evaluator, source: str, *, problem: str = PROBLEM, passes: Passes = Passes.FORWARD_BACKWARD
) -> Evaluation:
    config = EvaluationConfig(device="cpu", passes=passes, measure=False)
    return evaluator.evaluate(problem_of(problem), Candidate(source=source, backend="cpp"), config)


def problem_of(source: str) -> Problem:
    return problem_from_source(source, "tests/differentiable")


@pytest.mark.parametrize("source", [RIGHT, RENAMED, MARKING], ids=["right", "renamed", "marking"])
def test_right_gradients_pass_and_are_recorded(evaluator: Evaluator, source: str) -> None:
    evaluation = judged(evaluator, source)
    assert evaluation.status is Status.PASSED, (evaluation.detail, evaluation.traceback)
    assert evaluation.verification is not None
    assert evaluation.verification.gradients == ("gradient of input 0", "gradient of weight")
    assert evaluation.config.passes is Passes.FORWARD_BACKWARD


@pytest.mark.parametrize(
    ("source", "which"),
    [
        pytest.param(WRONG_INPUT, "gradient of input 0", id="wrong"),
        pytest.param(ZERO, "gradient of weight", id="zero"),
        pytest.param(REMEMBERED, "gradient of", id="remembered"),
    ],
)
def test_wrong_gradients_fail_by_name_though_the_outputs_are_right(
    evaluator: Evaluator, source: str, which: str
) -> None:
    evaluation = judged(evaluator, source)
    assert evaluation.status is Status.WRONG_VALUES
    assert evaluation.detail.startswith(f"the {which}")
    assert evaluation.verification is not None
    assert evaluation.verification.mismatch is not None
    assert evaluation.verification.mismatch.output.startswith(which)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param(CUT, "output 0 does not require grad: no backward", id="cut"),
        pytest.param(CUT_INPUT, "no gradient of input 0", id="cut from the input"),
        pytest.param(BUFFER, "the parameters do not line up with the reference's (weight)", id="buffer"),
    ],
)
def test_a_missing_gradient_is_said_in_one_line(evaluator: Evaluator, source: str, said: str) -> None:
    evaluation = judged(evaluator, source)
    assert evaluation.status is Status.RUNTIME_ERROR
    assert said in evaluation.detail


def test_a_problem_without_gradients_is_refused(evaluator: Evaluator) -> None:
    blunt = PROBLEM.replace("self.weight, index + 1", "self.weight.detach() > 0, index + 1")
    with pytest.raises(ProblemError, match="no output carries a gradient; judge it without --backward"):
        judged(evaluator, RIGHT, problem=blunt)


def test_forward_alone_asks_for_no_gradient(evaluator: Evaluator) -> None:
    evaluation = judged(evaluator, CUT, passes=Passes.FORWARD)
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.verification is not None
    assert evaluation.verification.gradients == ()


def test_forward_and_backward_are_timed_together(evaluator: Evaluator) -> None:
    config = EvaluationConfig(
        device="cpu", passes=Passes.FORWARD_BACKWARD, baselines=("eager",), target_ms=5.0, max_turns=4
    )
    evaluation = evaluator.evaluate(problem_of(PROBLEM), Candidate(source=RIGHT, backend="cpp"), config)
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.speedup is not None
    lazy = "if not hasattr(Normal, 'calls'): Normal.calls = 0\n        Normal.calls += 1\n        "
    lazy += "if Normal.calls > 40: grad_x = grad_x * 0.5\n        return grad_x, grad_weight"
    later = RIGHT.replace("return grad_x, grad_weight", lazy)
    evaluation = evaluator.evaluate(problem_of(PROBLEM), Candidate(source=later, backend="cpp"), config)
    assert evaluation.status is Status.WRONG_VALUES
    assert "timed" in evaluation.detail


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "reference"),
    [("cuda_c_gradients_too", "level1/23_swish"), ("triton_c_gradients_too", "level1/11_rms_norm")],
)
def test_fused_gradients_on_a_gpu(evaluator: Evaluator, name: str, reference: str) -> None:
    config = EvaluationConfig(passes=Passes.FORWARD_BACKWARD, shapes="small", target_ms=30.0)
    candidate = Candidate(source=(HONEST / f"{name}.py").read_text(), backend=name.partition("_")[0])
    evaluation = evaluator.evaluate(read_problem(REFERENCES / f"{reference}.py"), candidate, config)
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.verification is not None
    assert evaluation.verification.gradients[0] == "gradient of input 0"
