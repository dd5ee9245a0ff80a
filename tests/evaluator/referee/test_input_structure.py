"""Inputs with a structure keep it in every trial and in timed calls; ties may go either way."""

import random

import pytest
import torch

from kernelwright.evaluator.ipc.tensor_layout import place, stacked
from kernelwright.evaluator.referee.correctness.comparison import compare
from kernelwright.evaluator.referee.reference.input_structure import (
    keeper,
    kept_in_order,
    mirrored,
    symmetric,
    variable,
)
from kernelwright.evaluator.referee.timing.timed_inputs import TimedInputs
from kernelwright.evaluator.referee.timing.timed_outputs import TimedOutputs
from tests.evaluator.referee.references import pool_of

HEAD = "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def forward(self, *x):\n"
NO_INIT = "\ndef get_init_inputs():\n    return []\n"
PRODUCT = f"{HEAD}        return x[0] @ x[1]\n{NO_INIT}\ndef get_inputs():\n"
PAIRS = {
    "symmetric": "    return [(m := torch.randn(24, 24)) + m.T, torch.rand(24, 24)]\n",
    "halves": "    return [torch.cat([m := torch.randn(24, 12), m], -1), torch.rand(24, 24)]\n",
    "pairs": "    return [torch.randn(24, 12).repeat_interleave(2, -1), torch.rand(24, 24)]\n",
    "triangular": "    return [torch.randn(24, 24).triu(), torch.randn(24, 24).tril()]\n",
}
KEPT = {
    "symmetric": lambda matrix: matrix.T,
    "halves": lambda matrix: matrix.roll(12, -1),
    "pairs": lambda matrix: matrix[:, ::2].repeat_interleave(2, -1),
    "triangular": lambda matrix: matrix.triu(),
}
GATHERED = (
    f"{HEAD}        return x[0][x[1]] * x[2]\n{NO_INIT}\n"
    "def get_inputs():\n"
    "    return [torch.randn(50, 4), torch.randint(0, 50, (40,)), torch.arange(40)[:, None] % 7]\n"
)
SORTED = (
    f"{HEAD}        return x[0].sort(descending=True).indices\n{NO_INIT}\n"
    "def get_inputs():\n    x = torch.randn(64, 512)\n    x[:, 7] = x[:, 300]\n    return [x]\n"
)


@pytest.mark.parametrize("kind", PAIRS)
def test_trials_and_timed_calls_keep_the_structure_of_inputs(kind):
    pool = pool_of(PRODUCT + PAIRS[kind], 11)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(4))
    slots, size = place(pool.bases[0].arguments.leaves, count=2, block=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    inputs.publish(memory, slots, inputs.recipe(2))
    given = [trial.arguments.leaves[0] for draw in pool.draws for trial in draw.trials]
    given += list(stacked(memory, slots[0], 0, 2))
    assert len(given) > 8
    for matrix in given:
        assert torch.equal(matrix, KEPT[kind](matrix))
    assert pool.starts().signed


def test_whole_numbers_of_mixed_inputs_never_come_again():
    pool = pool_of(GATHERED, 11)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(4))
    slots, size = place(pool.bases[0].arguments.leaves, count=8, block=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    seen = []
    for _ in range(2):
        inputs.publish(memory, slots, inputs.recipe(8))
        seen += [places.clone() for places in stacked(memory, slots[1], 0, 8)]
        fixed = stacked(memory, slots[2], 0, 8)
        assert all(torch.equal(places, pool.bases[0].arguments.leaves[2]) for places in fixed)
    assert not any(torch.equal(a, b) for at, a in enumerate(seen) for b in seen[:at])
    assert max(int(places.max()) for places in seen) < 50


def test_masks_labels_and_what_is_in_order_is_not_varied():
    assert variable(torch.randn(4, 8))
    assert not variable(torch.randn(64).sort().values)
    assert not variable(torch.randn(3, 64).sort(descending=True).values)
    assert not variable((torch.rand(8, 8) < 0.5).float())
    assert not variable((torch.rand(8, 8) < 0.5).float() * 2 - 1)
    assert not variable(torch.arange(8))


def test_a_symmetric_matrix_is_known_and_made():
    matrix = torch.randn(2, 5, 5)
    assert not symmetric(matrix)
    assert symmetric(mirrored(matrix))


def test_rows_that_repeat_nothing_or_one_number_are_varied_at_will():
    other = torch.arange(12.0).view(2, 6)
    for rows in (torch.randn(2, 6), torch.full((2, 6), 0.5), torch.ones(2, 6) * torch.randn(2, 1)):
        assert keeper(rows)(other) is other


def test_equal_values_may_be_sorted_either_way_and_others_not():
    pool = pool_of(SORTED, 11)
    trial = pool.bases[0]
    values = trial.arguments.leaves[0]
    other = values.flip(-1).sort(descending=True, stable=True).indices
    backwards = values.shape[-1] - 1 - other
    assert not torch.equal(backwards, trial.expected.output.leaves[0])
    assert compare(trial.expected, [backwards], limit=192.0, trial="t").mismatch is None
    wrong = trial.expected.output.leaves[0].roll(1, -1)
    assert compare(trial.expected, [wrong], limit=192.0, trial="t").mismatch is not None


def test_answers_to_whole_numbers_are_held_to_the_usual_error():
    source = (
        "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.table = nn.Embedding(50, 64)\n"
        "    def forward(self, x):\n        return self.table(x)\n"
        f"{NO_INIT}\ndef get_inputs():\n    return [torch.randint(0, 50, (40,))]\n"
    )
    pool = pool_of(source, 11)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(4))
    assert inputs.whole_draws
    outputs = TimedOutputs(inputs, limit=192.0)
    recipe, right = inputs.recipe(2), torch.randn(2, 40, 64)
    scale = max(float(trial.expected.leaves[0].scale.max()) for trial in pool.bases)
    assert outputs.compare([right + 100 * scale], [right], recipe, {}).mismatch == ""
    assert "error" in outputs.compare([right + 400 * scale], [right], recipe, {}).mismatch


def test_few_numbers_in_order_are_told_from_chance_by_several_draws():
    def draw() -> list[torch.Tensor]:
        return [
            torch.tensor([0.0, 0.2, 0.5, 0.8, 1.5]),
            torch.rand(5).sort().values,
            torch.rand(2).sort(descending=True).values,
            torch.rand(40, 2).sort().values,
            torch.tensor([0.2, 0.7]),
            torch.full((5,), 0.5),
            torch.rand(5),
            torch.rand(9).sort().values,
        ]

    assert kept_in_order(draw(), draw) == {0, 1, 2, 3}


def test_two_random_numbers_are_not_in_order():
    generator = torch.Generator().manual_seed(3)
    for _ in range(40):
        first = torch.rand(2, generator=generator)
        assert not kept_in_order([first], lambda: [torch.rand(2, generator=generator)])


def test_a_few_boundaries_stay_in_order_in_trials_and_timed_calls_and_other_inputs_vary():
    source = (
        f"{HEAD}        return torch.bucketize(x[0], x[1]) * x[2].sum()\n{NO_INIT}\n"
        "def get_inputs():\n"
        "    return [torch.randn(16, 64), torch.rand(5).sort().values, torch.rand(2)]\n"
    )
    pool = pool_of(source, 11)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=random.Random(4))
    slots, size = place(pool.bases[0].arguments.leaves, count=4, block=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    inputs.publish(memory, slots, inputs.recipe(4))
    given = [trial.arguments.leaves for draw in pool.draws for trial in draw.trials]
    boundaries = [leaves[1] for leaves in given] + list(stacked(memory, slots[1], 0, 4))
    assert all(bool((some.diff() > 0).all()) for some in boundaries)
    assert any(not torch.equal(leaves[2], given[0][2]) for leaves in given[1:6])
    assert any(bool((leaves[0] != given[0][0]).any()) for leaves in given[1:6])
