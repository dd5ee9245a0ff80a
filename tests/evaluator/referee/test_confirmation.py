"""What looks like a flaw on plain inputs and initial weights is one if it passes every trial, too."""

import pytest

from kernelwright.evaluator.referee.correctness.limits import limit
from kernelwright.evaluator.referee.correctness.op_trace import trace_call
from kernelwright.evaluator.referee.correctness.tolerance import expect
from kernelwright.evaluator.referee.problem_check.confirmation import confirmed
from kernelwright.evaluator.referee.problem_check.sensitivity import Sensitivity
from kernelwright.evaluator.referee.problem_check.trivial_answers import (
    Examiner,
    Suspicion,
    of_half_precision,
    of_identity,
    of_values,
)
from kernelwright.evaluator.referee.reference.reference import Reference
from tests.evaluator.referee.references import pool_of, reference_of

PROBLEM = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {setup}
    def forward(self, x, *others):
        return {forward}
def get_inputs():
    return [{inputs}]
"""
X = "torch.randn(64, 48)"
NOTHING = "pass"
GATE = "self.gate = nn.Parameter(torch.zeros(48))"
LINEAR = "self.linear = nn.Linear(48, 48)"
LAST = "self.last = nn.Linear(48, 48, bias=False); nn.init.zeros_(self.last.weight)"


def _found(setup: str, forward: str, inputs: str) -> tuple[set[str], set[str]]:
    """Names of flaws that are suspected, and of those that are confirmed."""
    source = PROBLEM.format(setup=setup, forward=forward, inputs=inputs)
    reference = reference_of(source)
    suspicions = _suspicions(reference)
    pool = pool_of(reference, 1)
    flaws = confirmed(suspicions, pool, reference)
    return {suspicion.flaw.name for suspicion in suspicions}, {flaw.name for flaw in flaws}


def _suspicions(reference: Reference) -> list[Suspicion]:
    (model, other), (arguments, drawn) = ((make(2), make(3)) for make in (reference.model, reference.inputs))
    trace = trace_call(reference, model, arguments)
    expected = expect(reference, model, arguments, "fp32", trace)
    examiner = Examiner(expected, limit("fp32", zero_mean=False, terms=trace.terms))
    sensitivity = Sensitivity(reference, model, arguments, examiner)
    return [
        *of_values(examiner, reference.call(other, drawn)),
        *of_identity(examiner, arguments)[0],
        *sensitivity.of_inputs(drawn),
        *sensitivity.of_parameters(other),
        *of_half_precision(reference, arguments, examiner, seed=2, trace=trace)[0],
    ]


@pytest.mark.parametrize(
    ("setup", "forward", "inputs", "suspected"),
    [
        (f"{LINEAR}; {GATE}", "x + self.gate * self.linear(x)", X, {"identity", "ignores_parameter"}),
        (f"{LINEAR}; {LAST}", "self.last(self.linear(x))", X, {"near_zero_output", "ignores_parameter"}),
        (
            NOTHING,
            "torch.where(others[1], x.tanh(), others[0].tanh())",
            f"{X}, {X}, {X} < 99",
            {"ignores_input"},
        ),
        (
            NOTHING,
            "x.flatten() @ others[0].flatten()",
            "*torch.randn(2, 1024, 1024)",
            {"half_precision_suffices"},
        ),
        (
            NOTHING,
            "x.tanh().masked_fill(torch.arange(48) >= others[0], 0.0)",
            f"{X}, torch.randint(24, 38, ())",
            {"reads_part_of_input"},
        ),
    ],
    ids=["zero gate", "zero weights", "mask of ones", "terms that cancel", "lengths that are short"],
)
def test_a_sound_problem_is_suspected_and_not_called_flawed(setup, forward, inputs, suspected):
    before, after = _found(setup, forward, inputs)
    assert suspected <= before
    assert after == set()


@pytest.mark.parametrize(
    ("forward", "inputs", "flaw"),
    [
        ("torch.tanh(x + others[0] - others[0])", f"{X}, {X}", "ignores_input"),
        ("torch.tanh(x[:, 16:])", X, "reads_part_of_input"),
        ("x.clone()", X, "identity"),
        ("torch.relu(x)", X.replace("randn", "rand"), "identity"),
        ("1e-4 * torch.tanh(x)", X, "near_zero_output"),
        ("torch.ones_like(x)", X, "constant_output"),
        ("torch.where(x > 0, 1.5, -0.5)", X, "half_precision_suffices"),
    ],
)
def test_what_passes_every_trial_is_a_flaw(forward, inputs, flaw):
    assert flaw in _found(NOTHING, forward, inputs)[1]


def test_a_parameter_without_effect_is_a_flaw():
    assert _found(GATE, "torch.tanh(x + self.gate - self.gate)", X)[1] == {"ignores_parameter"}
