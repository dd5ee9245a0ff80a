import random

import torch

from kernelwright.evaluator.ipc.tensor_layout import place, stacked
from kernelwright.evaluator.referee.timing.tamper_checks import MemorySample


def _outputs() -> tuple[torch.Tensor, list[dict[str, object]]]:
    leaves = [torch.zeros(64, 128), torch.zeros(3, dtype=torch.int64)]
    slots, size = place(leaves, count=4, block=0)
    return torch.zeros(size, dtype=torch.uint8), slots


def test_a_part_written_after_the_answer_is_noticed():
    memory, slots = _outputs()
    sample = MemorySample(memory, slots, 4, random.Random(1))
    stacked(memory, slots[0], 0, 4)[:3] = 1.5
    sample.look()
    assert not sample.moved()
    stacked(memory, slots[0], 0, 4)[3, 60:] = 1.5
    assert sample.moved()


def test_places_differ_from_batch_to_batch():
    memory, slots = _outputs()
    secret = random.Random(2)
    drawn = [MemorySample(memory, slots, 4, secret)._places for _ in range(2)]
    assert not torch.equal(*drawn)
    assert all(int(places.max()) < memory.numel() for places in drawn)


def test_a_batch_without_inputs_never_moves():
    sample = MemorySample(torch.zeros(512, dtype=torch.uint8), [], 4, random.Random(3))
    sample.look()
    assert not sample.moved()
