"""Places where rounding decides: how many jump together, and how those are found that few draws miss."""

from __future__ import annotations

from dataclasses import replace

import torch

from kernelwright.evaluator.referee.correctness.comparison import compare
from kernelwright.evaluator.referee.correctness.discontinuities import OutputWatch, jumping_together
from kernelwright.evaluator.referee.correctness.op_trace import trace_call
from kernelwright.evaluator.referee.correctness.policy import OTHER_LIMIT, TIE_ROUNDOFF
from kernelwright.evaluator.referee.correctness.tolerance import Expected, ExpectedLeaf, expect
from tests.evaluator.referee.references import reference_of

SIGN = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        total = x.sum(-1)
        return torch.where(total > 0.0, 1.0 + total, total)
def get_inputs():
    return [torch.randn(4096, 256)]
"""
NEAR = 16


def _sums_near_zero(roundoffs: float) -> Expected:
    """Exact outputs where the first sums are so many perturbations by a roundoff away from zero."""
    reference = reference_of(SIGN)
    model, arguments = reference.model(1), reference.inputs(1)
    x = arguments.leaves[0]
    size = x[:NEAR].double().square().sum(-1).sqrt() * TIE_ROUNDOFF
    x[:NEAR, 0] -= x[:NEAR].double().sum(-1).float()
    x[:NEAR, 1] += (roundoffs * size).float()
    return expect(reference, model, arguments, "fp32", trace_call(reference, model, arguments))


def _decided_otherwise(expected: Expected, rows: int) -> torch.Tensor:
    exact = expected.leaves[0].exact
    output = expected.output.leaves[0].clone()
    output[:rows] = torch.where(exact[:rows] > 0.5, exact[:rows] - 1.0, exact[:rows] + 1.0).float()
    return output


def _accepts(expected: Expected, output: torch.Tensor) -> bool:
    return compare(expected, [output], limit=OTHER_LIMIT, trial="t").mismatch is None


def test_a_decision_that_the_first_draws_missed_is_found_once_a_candidate_differs():
    expected = _sums_near_zero(1.15)
    output = _decided_otherwise(expected, NEAR)
    assert not _accepts(replace(expected, decide_again=None), output), "the first draws found all"
    assert _accepts(expected, output)


def test_a_decision_that_no_rounding_explains_is_wrong():
    expected = _sums_near_zero(30.0)
    assert not _accepts(expected, _decided_otherwise(expected, 1))


def test_what_differs_in_many_places_is_not_looked_at_again():
    expected = _sums_near_zero(1.15)
    looked: list[list[ExpectedLeaf]] = []

    def decide_again(leaves: list[ExpectedLeaf]) -> list[ExpectedLeaf]:
        looked.append(leaves)
        return leaves

    counted = replace(expected, decide_again=decide_again)
    assert not _accepts(counted, _decided_otherwise(expected, 4096))
    assert not looked


def test_scales_from_many_perturbations_outlast_a_second_look():
    expected = _sums_near_zero(1.15)
    larger = [replace(leaf, scale=leaf.scale * 3) for leaf in expected.leaves if leaf.scale is not None]
    again = replace(expected, leaves=larger).decided_again()
    assert torch.equal(again.leaves[0].scale, larger[0].scale)
    assert again.leaves[0].jumps is not None
    assert again.decide_again is None


def test_the_largest_jump_of_several_searches_counts():
    exact = torch.zeros(64, 256, dtype=torch.float64)

    def perturbed(roundoff: float, draw: int) -> list[torch.Tensor]:
        """Cross a threshold that two elements depend on in odd draws, nine in even ones."""
        moved = exact.clone()
        if roundoff > 2.0**-12:
            moved[3, : 2 if draw % 2 else 9] = 1.0
        return [moved]

    def found(flips: dict[int, int]) -> list[int]:
        watched = [OutputWatch(exact, torch.full((64,), 1e-8), torch.float32, 128.0)]
        return jumping_together(watched, perturbed, decides=True, flips=flips)

    assert found({}) == [9]
    assert found({0: 5}) == [5], "known from other inputs, not searched for again"
