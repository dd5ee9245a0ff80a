"""Parameters and buffers that no seed varies are moved by value, and given to candidates by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kernelwright.evaluator.ipc.model_init import give
from kernelwright.evaluator.ipc.model_state import named_state
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.schema.evaluation import Status
from tests.evaluator.referee.in_process import UNTIMED, Opener, opened
from tests.evaluator.referee.references import pool_of

__all__ = ["opened"]

PROBLEM = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64))
        {made}
    def forward(self, x):
        return torch.relu(x * self.weight) {used}
def get_inputs():
    return [torch.randn(64, 64)]
"""
MADE = {
    "scalar": "self.held = nn.Parameter(torch.tensor(0.0))",
    "view of zeros": "self.held = nn.Parameter(torch.zeros(128)[::2])",
    "difference": "self.held = nn.Parameter(torch.ones(64) - 1)",
    "data replaced": "self.held = nn.Parameter(torch.randn(64)); self.held.data = self.held.data * 0",
    "never learned": "self.held = nn.Parameter(torch.tensor(0.0), requires_grad=False)",
    "buffer": "self.register_buffer('held', torch.zeros(64))",
    "buffer outside the state": "self.register_buffer('held', torch.zeros(64), persistent=False)",
}


def _pool(made: str, used: str = "+ self.held * x") -> TrialPool:
    source = PROBLEM.format(made=made, used=used)
    return pool_of(source, 2)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_gate_of_zero_is_moved_however_it_is_made(made: str) -> None:
    moved, plain = _pool(made).draws
    assert (moved.vary, plain.vary) == (True, False)
    assert float(moved.given["held"].abs().max()) > 0.01
    assert torch.equal(moved.given["held"], named_state(moved.model)["held"])
    assert plain.given == {}
    assert not named_state(plain.model)["held"].any()


@pytest.mark.parametrize(
    "made",
    [
        "self.register_buffer('held', torch.linspace(0, 1, 64))",
        "self.held = nn.Parameter(2.0 * (torch.arange(64) % 3 == 0) - 1.0)",
        "self.register_buffer('held', torch.tensor(3))",
    ],
    ids=["table", "one bit", "whole number"],
)
def test_tables_and_weights_of_one_bit_stay(made: str) -> None:
    assert [list(draw.given) for draw in _pool(made).draws] == [[], []]


def test_a_constant_without_which_nothing_is_finite_stays_and_others_are_moved() -> None:
    made = f"{MADE['scalar']}; self.register_buffer('one', torch.ones(()))"
    pool = _pool(made, "+ self.held + torch.where(self.one == 1, 0.0, float('nan'))")
    assert set(pool.draws[0].given) == {"held"}
    assert "one" in pool.constant_inputs
    assert bool(pool.bases[0].expected.output.leaves[0].isfinite().all())


STRUCTURED = {
    "copies of one expert": "nn.Parameter(torch.randn(8, 8).repeat(8, 1))",
    "a row of zeros": "nn.Parameter(torch.cat([torch.zeros(1, 64), torch.randn(63, 64)]))",
    "a padded kernel": "nn.Parameter(nn.functional.pad(torch.randn(8, 1, 3, 3), (2, 2, 2, 2)))",
    "one hot": "nn.Parameter(nn.functional.one_hot(torch.tensor(3), 64).float())",
    "orthogonal": "nn.Parameter(nn.init.orthogonal_(torch.empty(64, 64)))",
    "complex": "nn.Parameter(torch.zeros(64, dtype=torch.complex64))",
    "half precision": "nn.Parameter(torch.randn(8, 8).repeat(8, 1).bfloat16())",
    "frozen": "nn.Parameter(torch.randn(8, 8).repeat(8, 1), requires_grad=False)",
}


@pytest.mark.parametrize("made", STRUCTURED.values(), ids=STRUCTURED)
def test_weights_that_are_alike_in_part_differ_in_every_element(made: str) -> None:
    moved, plain = _pool(f"self.held = {made}", "+ self.held.abs().sum()").draws
    now = named_state(moved.model)["held"].detach()
    assert torch.equal(moved.given["held"], now)
    assert plain.given == {}
    assert int((now == 0).count_nonzero()) == 0
    assert all(not torch.equal(now[0], row) for row in now[1:])


def test_noise_is_the_same_for_one_seed_and_not_told_by_it() -> None:
    pool = _pool("self.held = nn.Parameter(torch.randn(8).repeat(8))")
    given, reference, seed = pool.draws[0].given, pool._reference, pool.draws[0].seed
    assert torch.equal(given["held"], named_state(reference.model(seed, vary=True))["held"])
    reference.fixed.keep_secret(1)
    assert not torch.equal(given["held"], named_state(reference.model(seed, vary=True))["held"])


def test_a_constant_of_the_constructor_that_must_stay_keeps_no_other() -> None:
    made = "self.power = nn.Parameter(torch.ones(())); self.held = nn.Parameter(torch.zeros(64))"
    pool = _pool(made, "+ self.held * x + torch.where(self.power == 1, 0.0, float('nan'))")
    first = pool.draws[0]
    assert first.at_construction
    assert float(named_state(first.model)["held"].detach().abs().max()) > 0.01
    assert float(first.given["power"]) == 1.0
    assert pool.constant_inputs == ("power",)


def test_a_constant_that_the_constructor_derives_from_keeps_no_other() -> None:
    made = (
        "self.power = nn.Parameter(torch.ones(())); self.derived = float(self.power.detach())"
        "; self.held = nn.Parameter(torch.zeros(64))"
    )
    pool = _pool(made, "+ self.held * x + (0.0 if self.derived == 1 else float('nan')) + self.power")
    first = pool.draws[0]
    assert not first.spec("ModelNew").vary
    assert float(first.given["held"].abs().max()) > 0.01
    assert pool.constant_inputs == ()


@pytest.mark.parametrize("made", ["scalar", "view of zeros", "buffer"])
@pytest.mark.parametrize(
    ("own", "used", "status"),
    [
        (None, "+ self.held * x", Status.PASSED),
        ("self.held = nn.Parameter(torch.zeros_like({made}))", "+ self.held * x", Status.PASSED),
        (None, "+ (self.held * x if self.held.any() else 0)", Status.PASSED),
        (None, "", Status.WRONG_VALUES),
        ("pass", "", Status.WRONG_VALUES),
    ],
    ids=["the same", "made otherwise", "looked at", "left out", "not even there"],
)
def test_a_candidate_is_given_what_was_moved(
    opened: Opener, made: str, own: str | None, used: str, status: Status
) -> None:
    shape = "torch.tensor(0.0)" if made == "scalar" else "torch.zeros(64)"
    source = PROBLEM.format(made=(own or MADE[made]).format(made=shape), used=used)
    referee = opened(PROBLEM.format(made=MADE[made], used="+ self.held * x"), UNTIMED)
    outcome = referee.evaluate(source.replace("class Model(", "class ModelNew("))
    assert outcome.status is status
    assert status is Status.PASSED or "loaded by name: held" in outcome.detail


def test_what_is_given_goes_through_a_models_own_hooks_and_may_be_no_part_of_it() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Parameter(torch.zeros(3))
            self.register_buffer("table", torch.zeros(2), persistent=False)
            self.register_load_state_dict_post_hook(lambda module, keys: module._pack())
            self._pack()

        def _pack(self) -> None:
            self.packed = 2 * self.gate.detach()

    model = Packed()
    values = {
        "gate": torch.arange(3.0),
        "table": torch.ones(2),
        "absent": torch.ones(1),
        "packed": torch.ones(7),
    }
    give(model, values)
    assert model.packed.tolist() == [0, 2, 4]
    assert model.table.tolist() == [1, 1]
    give(object(), values)
