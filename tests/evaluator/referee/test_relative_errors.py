"""Relative errors of most elements."""

import pytest
import torch

from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.groups import relative_error, typical_error


def _spread(count: int) -> torch.Tensor:
    return torch.randn(count, dtype=torch.float64).mul(20).exp()


@pytest.mark.parametrize("count", [policy.FEWEST_RELATIVE, 4 * policy.RELATIVE_SAMPLE])
@pytest.mark.parametrize(("share", "found"), [(0.1, False), (0.5, True), (1.0, True)])
def test_guesses_of_more_than_a_quarter_show_whatever_their_size(count, share, found):
    exact = _spread(count)
    smallest = exact.sort().indices[: int(share * count)]
    values = exact.clone()
    values[smallest] *= 1.25
    error = relative_error(values, exact)
    assert error is not None
    assert (error > 0.2) == found


def test_zeros_tiny_and_infinite_elements_and_too_few_say_nothing():
    exact = _spread(policy.FEWEST_RELATIVE)
    others = torch.tensor([0.0, 1e-40, float("inf"), float("nan")], dtype=torch.float64)
    assert relative_error(torch.cat([exact, others + 1]), torch.cat([exact, others])) == 0.0
    assert relative_error(exact[1:], exact[1:]) is None
    assert typical_error(exact[1:], exact[1:], exact[1:], eps=1e-7) is None


def test_a_reference_is_typically_off_by_its_own_error_or_its_response_or_half_a_rounding():
    exact = _spread(1000)
    assert typical_error(exact, exact, exact, eps=2e-7) == 1e-7
    assert typical_error(exact * (1 + 1e-3), exact, exact, eps=1e-7) == pytest.approx(1e-3)
    assert typical_error(exact, exact * (1 - 1e-3), exact, eps=1e-7) == pytest.approx(1e-3)


def test_other_elements_are_drawn_each_time():
    exact = torch.ones(16 * policy.RELATIVE_SAMPLE, dtype=torch.float64)
    values = exact + torch.arange(len(exact), dtype=torch.float64)
    assert len({relative_error(values, exact) for _ in range(5)}) == 5
