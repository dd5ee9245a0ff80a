"""What timed calls are given and how their outputs are compared."""

import random

import torch

from evaluator.contestant.slots import place, stacked
from evaluator.referee.errorscale import Expected
from evaluator.referee.reference import Arguments, Output
from evaluator.referee.ring import Ring
from evaluator.referee.trials import Trial

TENSOR = {"k": "tensor", "i": 0}
LOOSE, TIGHT = 192.0, 32.0


def _trial(name: str, limit: float) -> Trial:
    values = torch.randn(8, 64)
    arguments = Arguments([TENSOR], {}, [values])
    output = Output(TENSOR, [values.clone()], [False])
    expected = Expected(output, [values.double()], [torch.full((8,), 1e-7)], in_double=True)
    return Trial(name, arguments, expected, limit)


def _ring() -> Ring:
    trials = [_trial("as_drawn", LOOSE), _trial("zero_mean", TIGHT)]
    return Ring(
        trials,
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


def test_no_two_calls_and_no_two_batches_are_given_the_same_inputs():
    ring = _ring()
    slots, size = place([torch.empty(8, 64)], count=4, block=0)
    seen = []
    for _ in range(3):
        memory = torch.zeros(size, dtype=torch.uint8)
        ring.publish(memory, slots, ring.recipe(4))
        seen += [call.clone() for call in stacked(memory, slots[0], 0, 4)]
    assert not any(torch.equal(a, b) for at, a in enumerate(seen) for b in seen[:at])
