import random

import pytest
import torch

from kernelwright.evaluator.referee.correctness.comparison import compare
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.reference.reference import Reference

MATMUL = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.rand(64, 512), torch.rand(512, 48)]
"""

SOFTMAX = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
def get_inputs():
    return [torch.randn(32, 1024)]
"""


def trials(source):
    reference = Reference("p", source, {}, device=torch.device("cpu"), dtype="as_is")
    return TrialPool(reference, math="fp32", secret=random.Random(3)).draws[0].trials


def right(trial, output):
    return compare(trial.expected, [output], limit=trial.limit, trial=trial.name).mismatch is None


@pytest.fixture(scope="module")
def products():
    return trials(MATMUL)


def test_honest_orders_of_summation_pass_every_trial(products):
    for trial in products:
        a, b = trial.arguments.leaves
        sequential = torch.zeros(64, 48)
        for k in range(512):
            sequential += a[:, k : k + 1] * b[k : k + 1]
        assert right(trial, a @ b), trial.name
        assert right(trial, sequential), trial.name
        assert right(trial, (a.double() @ b.double()).float()), trial.name


@pytest.mark.parametrize("kept_bits", [7, 10], ids=["bf16", "tf32"])
def test_reduced_precision_inside_fails_where_terms_cancel(products, kept_bits):
    def rounded(values):
        drop = 1 << (23 - kept_bits)
        bits = values.view(torch.int32) + drop // 2
        return (bits & ~(drop - 1)).view(torch.float32)

    trial = next(trial for trial in products if trial.name == "zero_mean")
    a, b = trial.arguments.leaves
    assert not right(trial, rounded(a.contiguous()) @ rounded(b.contiguous()))


def test_sampled_sums_zeros_means_and_nan_fail(products):
    trial = products[0]
    a, b = trial.arguments.leaves
    full = a @ b
    assert not right(trial, a[:, ::2] @ b[::2] * 2)
    assert not right(trial, torch.zeros_like(full))
    assert not right(trial, full.mean().expand_as(full).contiguous())
    spoiled = full.clone()
    spoiled[3, 4] = float("nan")
    assert not right(trial, spoiled)


def test_one_wrong_element_among_many_is_found_and_located(products):
    trial = products[0]
    output = trial.arguments.leaves[0] @ trial.arguments.leaves[1]
    output[5, 7] *= 1.001
    mismatch = compare(trial.expected, [output], limit=trial.limit, trial="x").mismatch
    assert mismatch is not None
    assert mismatch.first_indices == ((5, 7),)
    assert mismatch.wrong == 1


def test_peaks_of_a_softmax_may_err_by_their_own_size():
    for trial in trials(SOFTMAX):
        (x,) = trial.arguments.leaves
        weights = torch.exp(x - x.amax(-1, keepdim=True))
        weights *= 1 + torch.randn_like(weights) * 2.0**-22
        assert right(trial, weights / weights.sum(-1, keepdim=True)), trial.name


def test_a_wrong_band_is_described_as_a_band(products):
    trial = products[0]
    output = trial.arguments.leaves[0] @ trial.arguments.leaves[1]
    output[:, 40:] = 0
    mismatch = compare(trial.expected, [output], limit=trial.limit, trial="x").mismatch
    assert mismatch is not None
    assert "40..47" in mismatch.pattern


def test_a_mismatch_is_described_alike_in_parts_and_in_one(products, monkeypatch):
    trial = products[0]
    exact = trial.expected.exact[0]
    output = exact.float()
    output[3, 40:] += 2.0
    output[60] = float("inf")
    whole = compare(trial.expected, [output], limit=trial.limit, trial="t").mismatch
    for module in ("comparison", "groups"):
        monkeypatch.setattr(f"kernelwright.evaluator.referee.correctness.{module}.CHUNK_ELEMENTS", 100)
    assert compare(trial.expected, [output], limit=trial.limit, trial="t").mismatch == whole
    assert whole is not None
    assert whole.wrong == 8 + 48
    assert whole.first_indices == tuple((3, column) for column in range(40, 45))
    assert whole.max_abs_error == pytest.approx(2.0, abs=1e-4)
