"""What timed calls are given and how their outputs are compared."""

import random

import torch

from evaluator.contestant.slots import place, stacked
from evaluator.referee.errorscale import Expected
from evaluator.referee.reference import Arguments, Output
from evaluator.referee.ring import Ring, _disagree
from evaluator.referee.shelf import Solved, Trial
from evaluator.referee.trials import AROUND, BELOW, NEAR, Starts

TENSOR = {"k": "tensor", "i": 0}
LOOSE, TIGHT = 192.0, 32.0


def _trial(name: str, limit: float, values: torch.Tensor | None = None) -> Trial:
    values = torch.randn(8, 64) if values is None else values
    arguments = Arguments([TENSOR], {}, [values])
    output = Output(TENSOR, [values.clone()], [False])
    expected = Expected(output, [values.double()], [torch.full((8,), 1e-7)], in_double=True)
    return Trial(name, limit, lambda: Solved(arguments, expected))


def _ring(
    *, values: torch.Tensor | None = None, signed: bool = True, between: tuple[float, float] = AROUND
) -> Ring:
    trials = [_trial("as_drawn", LOOSE, values), _trial("zero_mean", TIGHT, values)]
    return Ring(
        Starts(trials, between, signed),
        lambda: trials[0].arguments,
        secret=random.Random(3),
        limit=LOOSE,
        inputs_stay=True,
    )


def test_each_base_is_held_to_its_own_limit():
    ring = _ring()
    recipe = ring.recipe(16)
    tight = recipe.bases == 1
    assert tight.any()
    assert not tight.all()
    right = torch.zeros(16, 8, 64)
    between = 1e-7 * (LOOSE + TIGHT)
    own = right + between
    assert "times the rounding error" in ring.disagreement([own], [right], recipe)
    own[tight] = right[tight]
    assert ring.disagreement([own], [right], recipe) == ""


def _published(ring: Ring, count: int = 4) -> torch.Tensor:
    slots, size = place([torch.empty(8, 64)], count=count, block=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    ring.publish(memory, slots, ring.recipe(count))
    return stacked(memory, slots[0], 0, count)


def test_inputs_of_timed_calls_are_far_from_what_they_start_from():
    values = torch.randn(8, 64)
    ratios = _published(_ring(values=values)) / values
    assert ratios.abs().min() >= AROUND[0] - 1e-5
    assert ratios.abs().max() <= AROUND[1] + 1e-5
    assert ratios.abs().std() > 0.1
    assert 0.4 < (ratios > 0).float().mean() < 0.6
    assert ratios.std() > 0.5


def test_inputs_keep_their_signs_where_the_answer_needs_them():
    values = torch.rand(8, 64)
    for between in (AROUND, BELOW, NEAR):
        ratios = _published(_ring(values=values, signed=False, between=between)) / values
        assert ratios.min() >= between[0] - 1e-5
        assert ratios.max() <= between[1] + 1e-5


def test_masks_and_labels_are_published_as_they_are():
    labels = (torch.rand(8, 64) < 0.5).float() * 2 - 1
    ring = _ring(values=labels)
    assert ring.whole_draws
    assert torch.equal(_published(ring)[0], labels)


def test_no_two_calls_and_no_two_batches_are_given_the_same_inputs():
    ring = _ring()
    slots, size = place([torch.empty(8, 64)], count=4, block=0)
    seen = []
    for _ in range(3):
        memory = torch.zeros(size, dtype=torch.uint8)
        ring.publish(memory, slots, ring.recipe(4))
        seen += [call.clone() for call in stacked(memory, slots[0], 0, 4)]
    assert not any(torch.equal(a, b) for at, a in enumerate(seen) for b in seen[:at])


def test_few_marks_in_a_mask_cannot_be_left_out():
    right = torch.zeros(4, 100_000, dtype=torch.bool)
    right[:, 17] = True
    assert _disagree(right.clone(), right, None, torch.ones(4)) == ""
    assert "4 of 400,000" in _disagree(torch.zeros_like(right), right, None, torch.ones(4))


def test_a_near_tie_in_very_many_indices_may_go_the_other_way():
    right = torch.randint(0, 50, (4, 100_000))
    own = right.clone()
    own[0, :9] += 1
    assert _disagree(own, right, None, torch.ones(4)) == ""
    own[1, :60] += 1
    assert _disagree(own, right, None, torch.ones(4)) != ""
