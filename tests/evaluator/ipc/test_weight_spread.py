"""Random weights are drawn farther from their means, whoever draws them and by whatever name."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn, rand, randn
from torch.nn.init import normal_, trunc_normal_

from kernelwright.evaluator.ipc.model_init import construct
from kernelwright.evaluator.ipc.weight_spread import UNCHANGED, Spread, spread_draws

FOUR = Spread(4.0)
SIZE = (32, 16)

ALIKE = {
    "uniform about zero": (lambda: torch.empty(SIZE).uniform_(-0.3, 0.3), lambda: (2 * rand(SIZE) - 1) * 0.3),
    "uniform off zero": (lambda: torch.empty(SIZE).uniform_(1.0, 3.0), lambda: torch.rand(SIZE) * 2 + 1),
    "like another": (lambda: torch.rand_like(torch.empty(SIZE)), lambda: rand(SIZE)),
    "normal in place": (lambda: torch.empty(SIZE).normal_(0.0, 0.02), lambda: randn(SIZE) * 0.02),
    "normal off zero": (lambda: torch.normal(2.0, 0.5, SIZE), lambda: torch.randn(SIZE) * 0.5 + 2.0),
    "normal about tensors": (
        lambda: torch.normal(torch.full(SIZE, 2.0), 0.5),
        lambda: torch.randn(SIZE) * 0.5 + 2.0,
    ),
    "initialiser": (
        lambda: normal_(nn.Parameter(torch.empty(SIZE)), std=3.0).detach(),
        lambda: randn(SIZE) * 3,
    ),
    "data": (
        lambda: nn.Linear(16, 32).weight.data.normal_(0.0, 1.0),
        lambda: nn.Linear(16, 32) and randn(SIZE),
    ),
    "own generator": (
        lambda: torch.randn(SIZE, generator=torch.Generator().manual_seed(3)),
        lambda: torch.empty(SIZE).normal_(generator=torch.Generator().manual_seed(3)),
    ),
}


def _drawn(make, spread=UNCHANGED):
    torch.manual_seed(5)
    with spread_draws(spread):
        return make()


@pytest.mark.parametrize(("one", "other"), ALIKE.values(), ids=ALIKE)
def test_other_calls_that_draw_the_same_are_moved_alike(one, other):
    usual, moved, also = _drawn(one), _drawn(one, FOUR), _drawn(other, FOUR)
    torch.testing.assert_close(moved, also, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(moved.std(), 4 * usual.std(), rtol=1e-3, atol=0)


def test_truncated_numbers_are_drawn_before_they_are_moved():
    make = lambda: trunc_normal_(torch.empty(SIZE), mean=1.0, std=0.5, a=0.5, b=1.5)  # noqa: E731
    usual, moved = _drawn(make), _drawn(make, FOUR)
    torch.testing.assert_close(moved - 1, 4 * (usual - 1))
    assert nn.init._no_grad_trunc_normal_.__module__ == "torch.nn.init"


def test_whatever_a_constructor_derives_is_derived_of_what_was_moved():
    class Packs(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 32)
            self.packed = self.linear.weight.detach().t().contiguous()
            self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))

    usual, moved = (construct(Packs, [], {}, 7, vary=False, spread=each) for each in (UNCHANGED, FOUR))
    assert torch.equal(moved.linear.weight, 4 * usual.linear.weight)
    assert torch.equal(moved.packed, moved.linear.weight.t())
    torch.testing.assert_close(moved.normed.weight, 4 * usual.normed.weight)


def test_whole_numbers_orders_and_kept_shapes_stay():
    def make():
        return torch.randint(0, 9, (64,)), torch.randperm(64), torch.rand(8, 3), torch.randn(5)

    usual, moved = _drawn(make), _drawn(make, Spread(4.0, ((8, 3),)))
    assert [torch.equal(one, other) for one, other in zip(usual, moved, strict=True)] == [True] * 3 + [False]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it imports its compiler
def test_a_compiled_function_may_be_called_in_a_constructor_and_is_compiled_later():
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    compiled = torch.compile(lambda x: x.sin() + 1, backend=counter, fullgraph=True)
    with spread_draws(FOUR):
        assert torch.equal(compiled(torch.ones(3)), torch.ones(3).sin() + 1)
    assert counter.frame_count == 0
    assert torch.equal(compiled(torch.ones(3)), torch.ones(3).sin() + 1)
    assert counter.frame_count == 1


def test_nothing_is_moved_afterwards_nor_after_an_exception():
    with pytest.raises(ZeroDivisionError), spread_draws(FOUR):
        raise ZeroDivisionError
    assert torch.equal(_drawn(lambda: torch.randn(4)), _drawn(lambda: torch.randn(4), Spread(1.0)))


def test_a_spread_survives_its_message():
    wanted = Spread(1.5, ((3, 4), (), (7,)))
    assert Spread.from_message(json.loads(json.dumps(wanted.as_message()))) == wanted
    assert Spread.from_message(None) == UNCHANGED
