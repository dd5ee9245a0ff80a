"""Elements far larger than all others excuse nobody from computing the others."""

from __future__ import annotations

import pytest
import torch

from kernelwright.evaluator.referee.correctness.comparison import compare
from kernelwright.evaluator.referee.correctness.groups import gap_below, refined
from kernelwright.evaluator.referee.correctness.limits import AS_DRAWN, TIMED
from kernelwright.evaluator.referee.correctness.op_trace import trace_call
from kernelwright.evaluator.referee.correctness.policy import FEWEST_BELOW_GAP, GAP_BITS
from kernelwright.evaluator.referee.correctness.tolerance import Expected, expect
from tests.evaluator.referee.references import reference_of

SOURCE = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x, y, masked):
        {body}
def get_inputs():
    return [torch.randn(64, 32), torch.randn(128, 32), torch.rand(64, 128) < {share}]
"""
FILLED = "return (x @ y.T).masked_fill(masked, -1e9)"
ADDED = "return x @ y.T + masked * -1e9"
ROWS = "return (x @ y.T).masked_fill(masked[:, :1], 1e12)"
COMPLEX = "return torch.complex((x @ y.T).masked_fill(masked, 3e9), x @ y.T)"


def _expected(body: str, share: float = 0.5) -> Expected:
    reference = reference_of(SOURCE.format(body=body, share=share))
    model, arguments = reference.model(1), reference.inputs(2)
    return expect(reference, model, arguments, "fp32", trace_call(reference, model, arguments))


def _is_right(expected: Expected, answer: torch.Tensor, trial: str = AS_DRAWN) -> bool:
    return compare(expected, [answer], limit=192.0, trial=trial).mismatch is None


@pytest.mark.parametrize("body", [FILLED, ADDED, ROWS, COMPLEX])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_what_lies_beside_large_constants_is_computed(body: str, share: float) -> None:
    expected = _expected(body, share)
    right = expected.output.leaves[0]
    large = right.abs() > 1e6
    assert _is_right(expected, right)
    assert _is_right(expected, torch.where(large, right, right * (1 + 1e-6)))
    assert not _is_right(expected, torch.where(large, right, right * 0))
    assert not _is_right(expected, torch.where(large, right, right * (1 + 1e-3)))


def test_outliers_that_trials_make_excuse_what_is_rounded_beside_them() -> None:
    expected = _expected(FILLED)
    right = expected.output.leaves[0]
    assert _is_right(expected, torch.where(right < -1e6, right, right + 1), trial="outliers")


@pytest.mark.parametrize(
    ("large", "zeros"),
    [(1.0, 0.0), (1e-5, 0.0), (0.9, 0.0), (0.3, 0.999)],
    ids=["a column", "few", "most", "beside zeros"],
)
def test_a_gap_is_seen_in_outputs_that_are_looked_at_in_part(large: float, zeros: float) -> None:
    """As in small ones, wherever the large elements lie and however few they are."""
    values = torch.randn(1 << 13, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert gap_below(values) is None
    assert gap_below(torch.where(torch.rand_like(values) < zeros, 0.0, values)) is None
    stands_out = torch.rand(values.shape, generator=torch.Generator().manual_seed(2)) < large
    if large == 1.0:
        stands_out[:, 1:] = False
    values = torch.where(stands_out, 1e9, values)
    values = torch.where(torch.rand_like(values) < zeros, 0.0, values)
    least = gap_below(values)
    assert least is not None
    assert 100 < least <= 1e9


@pytest.mark.parametrize(
    "sizes",
    [
        torch.randn(1 << 16).double().abs(),
        torch.randn(1 << 16).double().exp(),
        torch.softmax(4 * torch.randn(256, 1024), -1).double().flatten(),
        torch.rand(1 << 12).double() ** 8,
        torch.zeros(1000, dtype=torch.float64),
        torch.cat([torch.zeros(1000), torch.ones(1000)]).double(),
        torch.tensor([], dtype=torch.float64),
        torch.cat([torch.ones(FEWEST_BELOW_GAP - 1), torch.full((9,), 1e9)]).double(),
        torch.cat([torch.ones(1000), torch.full((9,), 2.0**GAP_BITS)]).double(),
    ],
)
def test_nothing_stands_out_of_what_thins_out(sizes: torch.Tensor) -> None:
    assert gap_below(sizes) is None
    assert gap_below(-sizes) is None


def test_a_gap_lies_below_what_stands_out() -> None:
    sizes = torch.cat([torch.rand(1000), torch.full((5,), 1000.0), torch.full((5,), 1e9)]).double()
    sizes[7:9] = torch.tensor([torch.inf, torch.nan])
    least = gap_below(-sizes)
    assert least is not None
    assert 2 < least <= 1000


@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((2048, 3), (128, 48)),
        ((640,), (20, 32)),
        ((640, 1), (20, 32)),
        ((4, 96, 1), None),
        ((1, 1), None),
        ((4, 14, 14), (8, 98)),
        ((127, 3), None),
        ((8, 96), None),
        ((4, 7, 7), None),
        ((5, 3), None),
        ((0, 3), None),
    ],
    ids=str,
)
def test_rows_shorter_than_a_group_are_joined_to_few_neighbours(
    shape: tuple[int, ...], groups: tuple[int, int] | None
) -> None:
    leaf = torch.randn(shape, dtype=torch.float64)
    found = refined(leaf)
    assert (found is leaf) == (groups is None)
    assert groups is None or tuple(found.shape) == groups
    assert torch.equal(found.flatten(), leaf.flatten())


def test_small_neighbours_are_excused_by_their_own_size_alone() -> None:
    sizes = torch.logspace(0, 30, 512).repeat_interleave(2)[:, None]
    expected = _expected("return x[:1, :3] * torch.logspace(0, 30, 512).repeat_interleave(2)[:, None]")
    right = expected.output.leaves[0]
    assert _is_right(expected, right * (1 + 1e-6))
    assert not _is_right(expected, torch.where(sizes < 1e20, 0.0, right))
    assert _is_right(expected, torch.where(sizes < 1e20, 0.0, right), trial="outliers")


HEAVY = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x, y):
        return torch.exp(x - y)
def get_inputs():
    return [torch.randn(2048) * 6, torch.randn(2048) * 6]
"""


@pytest.mark.parametrize("trial", [AS_DRAWN, TIMED])
def test_few_large_outputs_of_a_vector_excuse_no_guesses_of_the_many_small_ones(trial: str) -> None:
    """Timed inputs alone may spread them so: losses of tokens, sampled but for the largest, were credited."""
    reference = reference_of(HEAVY)
    model, arguments = reference.model(1), reference.inputs(2)
    expected = expect(reference, model, arguments, "fp32", trace_call(reference, model, arguments))
    right = expected.output.leaves[0]
    guessed = torch.where(right > right.sort().values[-512], right, right * 1.3)
    assert _is_right(expected, right, trial)
    assert _is_right(expected, right * (1 + 1e-6), trial)
    assert (guessed - right).norm() < 1e-5 * right.norm()
    assert _is_right(expected, guessed, "zero_mean")
    assert not _is_right(expected, guessed, trial)
