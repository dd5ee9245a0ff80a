"""Outputs that are memory of their own, and those that are not."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from kernelwright.evaluator.contestant.output_aliasing import aliased_outputs, copy_aliased, overlaps_itself


@pytest.fixture(autouse=True)
def _as_in_a_call():
    with torch.no_grad():
        yield


@dataclass
class _Record:
    value: torch.Tensor


def _fresh() -> torch.Tensor:
    return torch.randn(4, 6)


@pytest.mark.parametrize(
    "make",
    [
        _fresh,
        lambda: _fresh().t(),
        lambda: _fresh()[1:3, 2:],
        lambda: _fresh()[:, ::2],
        lambda: torch.softmax(_fresh(), -1),
        lambda: torch.nn.Linear(6, 3)(_fresh()),
        lambda: torch.empty(0, 4),
        lambda: torch.tensor(3.0),
        lambda: torch.nn.Parameter(_fresh()),
        lambda: _fresh().chunk(2, dim=1),
        lambda: _fresh().unbind(-1),
        lambda: list(torch.randn(3, 4, 5).permute(2, 0, 1).split(2)),
        lambda: {"a": _fresh(), "b": [_fresh()]},
        lambda: SimpleNamespace(a=_fresh()),
        lambda: _Record(_fresh()),
        lambda: torch.view_as_real(torch.randn(4, dtype=torch.complex64)).unbind(-1),
    ],
)
def test_what_a_call_made_and_gave_away_is_its_own(make):
    assert not aliased_outputs([make() for _ in range(3)], frozenset())


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(1, 6).expand(4, 6),
        lambda: torch.randn(9).as_strided((4, 4), (1, 1)),
        lambda: torch.randn(8).unfold(0, 4, 2),
        lambda: torch.randn(4, dtype=torch.complex64).conj(),
        lambda: _fresh().share_memory_(),
        lambda: (_fresh(),) * 2,
        lambda: (lambda whole: (whole, whole[1:]))(_fresh()),
        lambda: (lambda whole: (whole[:3], whole[2:]))(_fresh()),
        lambda: {"all": (whole := _fresh()), "last": whole[:, -1]},
    ],
)
def test_what_shares_memory_is_copied(make):
    returned = [make()]
    aliased = aliased_outputs(returned, frozenset())
    assert aliased
    copies = [copy_aliased(value, aliased) for value in returned]
    del returned
    assert not aliased_outputs(copies, frozenset())


def test_copies_hold_the_same_values():
    value = {"wide": torch.randn(1, 6).expand(4, 6), "n": 3, "own": (_fresh(),)}
    copy = copy_aliased(value, aliased_outputs([value], frozenset()))
    assert copy["wide"].is_contiguous()
    assert torch.equal(copy["wide"], value["wide"])
    assert (copy["n"], copy["own"][0] is value["own"][0]) == (3, True)


class _Keeper:
    """A model that holds on to what it returns."""

    def __init__(self) -> None:
        self.state = _fresh()

    def itself(self):
        return self.state

    def a_view(self):
        return self.state[1:]

    def an_alias(self):
        return self.state.detach()

    def a_new_one(self):
        self.state = torch.tanh(self.state)
        return self.state


@pytest.mark.parametrize("method", ["itself", "a_view", "an_alias", "a_new_one"])
def test_what_its_maker_still_holds_is_copied(method):
    keeper = _Keeper()
    assert aliased_outputs([getattr(keeper, method)()], frozenset())
    assert aliased_outputs([{"a": (getattr(keeper, method)(),)}], frozenset())


def test_parameters_of_a_model_are_copied():
    model = torch.nn.Linear(3, 3)
    assert aliased_outputs([model.weight], frozenset())
    assert aliased_outputs([model.weight.t()], frozenset())


def test_two_calls_that_return_the_same_memory_are_seen():
    storage = torch.randn(8).untyped_storage()

    def view():
        return torch.empty(0).set_(storage, 0, (8,))

    assert len(aliased_outputs([view(), view()], frozenset())) >= 1


def test_what_lies_in_shared_storages_is_copied():
    inputs = _fresh()
    lent = inputs.t()
    assert aliased_outputs([lent], frozenset({inputs.untyped_storage().data_ptr()})) == {id(lent)}


@pytest.mark.parametrize(
    ("shape", "strides", "overlaps"),
    [
        ((2, 3), (3, 1), False),
        ((3, 2), (1, 3), False),
        ((2, 3), (10, 2), False),
        ((2, 3), (0, 1), True),
        ((2, 3), (2, 1), True),
        ((1, 3), (0, 1), False),
        ((0, 3), (0, 0), False),
        ((2, 2, 2), (4, 1, 2), False),
        ((2, 2, 2), (3, 1, 2), True),
    ],
)
def test_strides_that_overlap_are_told_from_those_that_do_not(shape, strides, overlaps):
    assert overlaps_itself(torch.randn(64).as_strided(shape, strides)) is overlaps
