"""Tolerances grow with the reductions that really happen."""

import pytest
import torch

from kernelwright.evaluator.referee.correctness.limits import limit
from kernelwright.evaluator.referee.correctness.op_trace import nonzero_terms, trace_call
from kernelwright.evaluator.referee.correctness.policy import EXACT_LIMIT
from tests.evaluator.referee.references import reference_of

SOURCE = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(6, 4, 3, groups=2)
        self.linear = nn.Linear(24, 48)
    def forward(self, x):
        return {0}
def get_inputs():
    return [torch.randn(5, 6, 16, 24)]
"""


def traced(expression: str):
    reference = reference_of(SOURCE.format(expression))
    model, arguments = reference.model(1), reference.inputs(2)
    return trace_call(reference, model, arguments).terms, (reference, model, arguments)


@pytest.mark.parametrize(
    "expression",
    [
        "x.sort(-1).values",
        "x.amax(-1)",
        "x.topk(3).values",
        "x.relu().clamp(max=1.0)",
        "torch.where(x > 0, x, -x).abs().flip(-1)",
        "x.gather(-1, x.argsort(-1)).double()",
        "torch.zeros(24, 16).index_put((x.argmax(-1).flatten() % 24,), x.flatten()[:16])",
    ],
)
def test_what_moves_or_chooses_elements_is_held_to_them(expression: str) -> None:
    terms, _ = traced(expression)
    assert not terms.computes
    assert limit("fp32", zero_mean=False, terms=terms) == EXACT_LIMIT


@pytest.mark.parametrize(
    "expression",
    [
        "x * 1.5",
        "x.sum(-1)",
        "x.sort(-1).values.exp()",
        "x.half().float()",  # rounds
        "x.argmax(-1) / 3",
        "torch.zeros(24).index_put((x.argmax(-1).flatten() % 24,), x.flatten()[:480], accumulate=True)",
        "torch.zeros(24).scatter_add(0, x.argmax(-1).flatten() % 24, x.flatten()[:480])",
    ],
)
def test_what_makes_new_numbers_may_round_them(expression: str) -> None:
    terms, _ = traced(expression)
    assert terms.computes
    assert limit("fp32", zero_mean=False, terms=terms) > EXACT_LIMIT


@pytest.mark.parametrize(
    ("expression", "products", "sums"),
    [
        ("torch.nn.functional.gelu(x) * 2 + x.flip(-1)", 1, 1),
        ("x.amax(-1)", 1, 1),
        ("x @ x.mT", 24, 1),
        ("torch.einsum('nchw,nchv->ncwv', x, x)", 16, 1),
        ("self.linear(x)", 24, 1),
        ("self.conv(x)", 27, 1),
        ("x.mean((-2, -1))", 1, 384),
        ("x.cumsum(-1)", 1, 24),
        ("x.softmax(-1)", 1, 24),
        ("torch.nn.functional.layer_norm(x, (16, 24))", 1, 384),
        ("torch.nn.functional.scaled_dot_product_attention(x, x, x)", 24, 16),
    ],
)
def test_terms_are_those_of_the_longest_reductions(expression: str, products: int, sums: int) -> None:
    terms, _ = traced(expression)
    assert (terms.products, terms.sums) == (products, sums)


@pytest.mark.parametrize(
    "expression", ["self.linear(x)", "self.conv(x)", "x.sum(-1)", "x.mean(-1)", "x @ x.mT"]
)
def test_terms_that_are_zero_do_not_count_where_asked(expression: str) -> None:
    _, (reference, model, arguments) = traced(expression)
    sparse = torch.zeros_like(arguments.leaves[0])
    sparse[..., 7] = 1.5
    assert nonzero_terms(reference, model, arguments.with_leaves([sparse])) in {1, 9}
    assert nonzero_terms(reference, model, arguments) >= 24


def test_what_sums_nothing_has_one_limit_however_long_its_rows() -> None:
    terms, _ = traced("torch.tanh(x)")
    assert limit("fp32", zero_mean=True, terms=terms) == limit("fp32", zero_mean=False, terms=terms)
