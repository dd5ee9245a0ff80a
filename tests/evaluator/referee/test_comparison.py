import pytest
import torch

from kernelwright.evaluator.referee.correctness.comparison import Outputs, compare, compare_change
from kernelwright.evaluator.referee.correctness.discontinuities import Discontinuities, Values
from kernelwright.evaluator.referee.correctness.op_trace import ReductionTerms
from tests.benchmarks.support.products import HONEST, NARROW
from tests.evaluator.referee.references import pool_of
from tests.evaluator.referee.timed_trials import LOOSE, made_trial

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


def trials(source, math="fp32"):
    return pool_of(source, 3, math=math).draws[0].trials


def right(trial, output):
    found = compare(trial.expected, [output], limit=trial.limit, trial=trial.name, overall=trial.overall)
    return found.mismatch is None


def changes_rightly(trial, multiply):
    """Whether a product's change between a trial's inputs and nearby ones is as exact as float32."""
    own, near = (multiply(*each.arguments.leaves) for each in (trial, trial.near))
    terms, before = ReductionTerms(products=512), Outputs(trial.near.expected, [near])
    return compare_change(trial.expected, [own], before, terms=terms, trial=trial.name) is None


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


def _applied(way):
    return lambda a, b: way(a[None], b[None])[0]


@pytest.mark.parametrize("way", HONEST)
def test_float32_products_in_any_order_pass_every_trial(products, way):
    multiply = _applied(HONEST[way])
    assert all(right(trial, multiply(*trial.arguments.leaves)) for trial in products)
    assert all(changes_rightly(trial, multiply) for trial in products if trial.near)


@pytest.mark.parametrize("way", NARROW)
def test_narrow_operands_fail_where_few_terms_are_left_and_where_inputs_change(products, way):
    multiply = _applied(NARROW[way])
    (few,) = (trial for trial in products if trial.name == "few_terms")
    (nearby,) = (trial for trial in products if trial.near)
    assert not right(few, multiply(*few.arguments.leaves))
    assert not changes_rightly(nearby, multiply)


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
    exact = trial.expected.leaves[0].exact
    output = exact.float()
    output[3, 40:] += 2.0
    output[60] = float("inf")
    whole = compare(trial.expected, [output], limit=trial.limit, trial="t").mismatch
    monkeypatch.setattr("kernelwright.evaluator.referee.correctness.policy.CHUNK_ELEMENTS", 100)
    assert compare(trial.expected, [output], limit=trial.limit, trial="t").mismatch == whole
    assert whole is not None
    assert whole.wrong == 8 + 48
    assert whole.first_indices == tuple((3, column) for column in range(40, 45))
    assert whole.max_abs_error == pytest.approx(2.0, abs=1e-4)


@pytest.mark.parametrize(("error", "passes"), [(1000.0, True), (2000.0, False)])
def test_one_element_of_a_long_row_errs_by_a_peak_and_no_more(error, passes):
    """In multiples of the scale; the norm of the row hides it."""
    trial = made_trial("as_drawn", LOOSE, torch.zeros(8, 4096))
    own = torch.zeros(8, 4096)
    own[3, 7] = error * 1e-7
    assert right(trial, own) is passes


def test_of_several_right_values_the_nearest_counts():
    places = torch.tensor([0, 1, 2])
    several = Discontinuities([Values(places, torch.tensor([3.0, 3.0, -5.0]).double())], share=1.0, most=3)
    exact, got = torch.tensor([2.0, 2.0, -4.0, 7.0]).double(), torch.tensor([2.1, 2.9, -4.9, 1.0])
    assert several.nearest(exact, got).tolist() == [2.0, 3.0, -5.0, 7.0]


def test_half_precision_products_pass_where_they_are_allowed():
    """Of a policy's mantissa bits, as a kernel under it would round its operands."""
    for math, bits in (("tf32", 10), ("fp16", 10), ("bf16", 7)):
        (trial, *_) = trials(MATMUL, math)
        a, b = (_rounded(leaf, bits) for leaf in trial.arguments.leaves)
        assert right(trial, a @ b), math
        few = (_rounded(leaf, bits - 5) for leaf in trial.arguments.leaves)
        assert not right(trial, torch.matmul(*few)), math


def _rounded(values, kept_bits):
    drop = 1 << (23 - kept_bits)
    return (values.contiguous().view(torch.int32) + drop // 2 & ~(drop - 1)).view(torch.float32)


OVERFLOWING = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return (x + {limit}).exp() * torch.exp(-x - {limit}) + x
def get_inputs():
    return [torch.rand(64, 64)]
"""


def test_nobody_is_held_to_what_only_the_reference_overflows_on():
    trial = trials(OVERFLOWING.format(limit=87.8))[0]
    (leaf,) = trial.expected.leaves
    own, lost = leaf.own, leaf.overflowed
    assert lost is not None
    assert 0 < int((~own.isfinite()).sum()) == int(lost.sum())
    assert right(trial, own)
    answer = 1 + trial.arguments.leaves[0]
    assert right(trial, answer)
    assert right(trial, torch.where(lost, 7.0, answer))
    first = (~lost).nonzero()[0]
    for junk in (torch.inf, torch.nan, 7.0):
        wrong = answer.clone()
        wrong[tuple(first)] = junk
        assert not right(trial, wrong)


def test_where_most_of_a_reference_overflows_all_of_it_is_compared():
    trial = trials(OVERFLOWING.format(limit=90.0))[0]
    assert trial.expected.leaves[0].overflowed is None
    assert not right(trial, torch.zeros(64, 64))


LINEAR = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(256, 512) / 512**0.5){dtype})
    def forward(self, x):
        return nn.functional.linear(x, self.weight)
def get_inputs():
    return [torch.randn(8, 512){dtype}]
"""


def test_timed_calls_get_two_trials_of_few_terms():
    pool = pool_of(LINEAR.format(dtype=""), 3)
    pool.draw_unseen()
    one, other = (trial.arguments.leaves[0] for trial in pool.unseen if trial.name == "few_terms")
    assert not torch.equal(one, other)


@pytest.mark.parametrize("dtype", ["", ".bfloat16()", ".half()"])
def test_trials_of_few_terms_hold_no_zeros_and_tell_narrow_weights(dtype):
    source = LINEAR.format(dtype=dtype)
    draw = pool_of(source, 3).draws[0]
    trial = next(trial for trial in draw.trials if trial.name == "few_terms")
    (x,), weight = trial.arguments.leaves, draw.model.weight.detach()
    assert not (x == 0).any()
    assert float((x.abs() < 2.0**-9).float().mean()) > 0.9
    assert right(trial, (x.double() @ weight.double().T).to(x.dtype))
    pairs = zip(x.split(64, 1), weight.split(64, 1), strict=True)
    parts = [(one.float() @ other.float().T).to(x.dtype) for one, other in pairs]
    assert right(trial, sum(parts))
    bits = 16 if x.dtype == torch.float32 else 8
    scale = weight.double().abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
    narrow = (weight.double() / scale).round() * scale
    assert not right(trial, (x.double() @ narrow.T).to(x.dtype))
