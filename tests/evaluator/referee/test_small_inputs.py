"""Small inputs that pass through numbers near one lose bits; what does not is held to all of them."""

from __future__ import annotations

import pytest

from kernelwright.evaluator.referee.correctness.comparison import compare
from tests.evaluator.referee.references import pool_of, reference_of

SOURCE = """
import torch
import torch.nn.functional as F
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return {body}
def get_inputs():
    return [torch.randn(64, 256)]
"""


def _wrong(reference: str, candidate: str) -> list[str]:
    """Trials that a candidate fails."""
    wanted, tried = (reference_of(SOURCE.format(body=body)) for body in (reference, candidate))
    pool = pool_of(wanted, 3)
    model = tried.model(0)
    failed = []
    for trial in pool.draws[0].trials:
        answer = tried.call(model, trial.arguments).leaves
        if compare(trial.expected, answer, limit=trial.limit, trial=trial.name).mismatch is not None:
            failed.append(trial.name)
    return failed


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        ("F.elu(x)", "torch.where(x > 0, x, torch.exp(x) - 1)"),
        ("F.selu(x)", "1.0507009873554805 * torch.where(x > 0, x, 1.6732632423543772 * (x.exp() - 1))"),
        ("torch.tanh(x)", "2 * torch.sigmoid(2 * x) - 1"),
        ("torch.tanh(x), torch.expm1(x)", "1 - 2 / ((2 * x).exp() + 1), x.exp() - 1"),
    ],
)
def test_who_passes_through_one_is_right(reference: str, candidate: str) -> None:
    assert _wrong(reference, candidate) == []


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        ("torch.tanh(x)", "torch.where(x.abs() < 2e-3, 0.999 * x, torch.tanh(x))"),
        ("x * 2", "torch.where(x.abs() < 1e-3, 0.0, x * 2)"),
        ("F.normalize(x, dim=-1, eps=0.01)", "x / (x.norm(dim=-1, keepdim=True) + 1e-12)"),
        (
            "x / (x.norm(dim=-1, keepdim=True) + 1e-6)",
            "x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-12)",
        ),
        (
            "x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)",
            "x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1.1e-6)",
        ),
    ],
)
def test_who_takes_small_inputs_for_others_is_wrong(reference: str, candidate: str) -> None:
    assert "tiny" in _wrong(reference, candidate)
