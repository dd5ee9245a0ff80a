"""References in half precision between wide types: kernels may round elsewhere, or not at all."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from kernelwright.evaluator.referee.correctness.comparison import compare
from kernelwright.evaluator.referee.correctness.policy import UNIT_ROUNDOFF
from kernelwright.evaluator.referee.correctness.trial_cache import Trial
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.reference.float64_mode import Float64Mode
from kernelwright.evaluator.referee.reference.reference import Reference
from tests.evaluator.referee.references import pool_of, reference_of

SOURCE = """
import torch
import torch.nn.functional as F
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(256, 256{dtype})
        self.two = nn.Linear(256, 256{dtype})
    def forward(self, x):
        {body}
def get_inputs():
    return [torch.randn(64, 256{dtype})]
"""
HALVED = {
    "autocast": "with torch.autocast('cpu', torch.bfloat16): return self.two(F.gelu(self.one(x))).float()",
    "float16": "h, w = F.gelu(self.one(x)).half(), self.two.weight.half(); return F.linear(h, w).float()",
    "narrowed": """b = torch.bfloat16
        h = F.gelu(F.linear(x.to(b), self.one.weight.to(b), self.one.bias.to(b)))
        return F.linear(h, self.two.weight.to(b)).to(torch.float32)""",
    "widened at the end": "return torch.log_softmax(self.two(F.gelu(self.one(x))).float(), -1)",
    "into memory made before": """out = torch.zeros(64, 256, dtype=torch.float32)
        return out.add_(self.two(F.gelu(self.one(x))))""",
    "summed in a type of its own": "return F.softmax(self.two(self.one(x)), -1, dtype=torch.float32)",
}
GIVEN_HALF = ("widened at the end", "into memory made before", "summed in a type of its own")


def _pool(name: str) -> tuple[Reference, TrialPool]:
    dtype = ", dtype=torch.bfloat16" if name in GIVEN_HALF else ""
    source = SOURCE.format(body=HALVED[name], dtype=dtype)
    reference = reference_of(source)
    return reference, pool_of(reference, 3)


@pytest.mark.parametrize("name", HALVED)
def test_who_rounds_nothing_on_the_way_is_right(name: str) -> None:
    reference, pool = _pool(name)
    trial = pool.bases[0]
    assert trial.expected.in_double
    with Float64Mode():
        exact = reference.call(pool.draws[0].model.double(), trial.arguments.with_leaves(_double(trial)))
    found = compare(trial.expected, [exact.leaves[0].float()], limit=trial.limit, trial="")
    assert found.mismatch is None
    assert found.error_ratio < 0.01


@pytest.mark.parametrize("name", HALVED)
@pytest.mark.parametrize("roundings", [1, 2])
def test_who_rounds_as_often_elsewhere_is_right(name: str, roundings: int) -> None:
    _, pool = _pool(name)
    trial = pool.bases[0]
    other = trial.expected.leaves[0].exact
    for _ in range(roundings):
        other = other + (trial.expected.output.leaves[0] - trial.expected.leaves[0].exact).roll(1, 0)
    assert compare(trial.expected, [other.float()], limit=trial.limit, trial="").mismatch is None


@pytest.mark.parametrize("name", HALVED)
def test_the_limit_is_that_of_half_precision(name: str) -> None:
    """192 times the error of half precision would be most of a value."""
    _, pool = _pool(name)
    trial = pool.bases[0]
    error = trial.expected.output.leaves[0] - trial.expected.leaves[0].exact
    for times, is_right in ((8, True), (32, False)):
        answer = (trial.expected.leaves[0].exact + times * error).float()
        found = compare(trial.expected, [answer], limit=trial.limit, trial="")
        assert (found.mismatch is None) == is_right


def test_without_half_precision_limits_stay() -> None:
    body = "h = self.one(x.float()); return self.two(h.to(torch.float32))"
    pool = pool_of(SOURCE.format(body=body, dtype=""), 3)
    trial = pool.bases[0]
    assert pool.trace.half is None
    assert trial.expected.leaves[0].half is None
    size = trial.expected.leaves[0].exact.square().mean().sqrt()
    assert trial.expected.leaves[0].scale is not None
    assert float(trial.expected.leaves[0].scale.max()) < 16 * UNIT_ROUNDOFF["fp32"] * float(size)


def test_eight_bits_are_meant() -> None:
    body = "return self.one((4 * x).to(torch.float8_e4m3fn).to(torch.bfloat16).float())"
    pool = pool_of(SOURCE.format(body=body, dtype=""), 3)
    trial = pool.bases[0]
    assert trial.expected.in_double
    unquantized = pool.draws[0].model.get_submodule("one")(4 * trial.arguments.leaves[0]).detach()
    assert compare(trial.expected, [unquantized], limit=trial.limit, trial="").mismatch is not None


def test_random_numbers_stay_as_they_are_drawn() -> None:
    torch.manual_seed(1)
    expected = torch.rand(8, dtype=torch.float32)
    torch.manual_seed(1)
    with Float64Mode():
        assert torch.equal(torch.rand(8, dtype=torch.float32), expected)
        assert torch.tensor([0.5], dtype=torch.float32).dtype == torch.float64
        assert torch.ones(2).half().dtype == torch.float64
        assert torch.ones(2, dtype=torch.complex64).dtype == torch.complex128


def test_widening_brings_no_compiler() -> None:
    code = (
        "import sys, torch\nfrom kernelwright.evaluator.referee.reference.float64_mode import Float64Mode\n"
        "with Float64Mode(): torch.ones(3).half() @ torch.ones(3).half()\n"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _double(trial: Trial) -> list[torch.Tensor]:
    return [leaf.double() for leaf in trial.arguments.leaves]


def test_what_roundings_took_off_is_an_answer() -> None:
    body = "h = x.bfloat16().float(); return h, (x - h).bfloat16().float()"
    pool = pool_of(SOURCE.format(body=body, dtype=""), 3)
    trial = pool.bases[0]
    assert pool.trace.keeps_roundings
    own = trial.expected.output.leaves
    zeros = [own[0], torch.zeros_like(own[1])]
    assert compare(trial.expected, own, limit=trial.limit, trial="").mismatch is None
    assert compare(trial.expected, zeros, limit=trial.limit, trial="").mismatch is not None
