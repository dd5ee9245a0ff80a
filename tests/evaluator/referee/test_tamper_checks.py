import random

import torch

from kernelwright.evaluator.ipc.tensor_layout import place, stacked
from kernelwright.evaluator.referee.timing.tamper_checks import MemorySample, busy_device


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


def test_a_device_that_is_always_slower_for_one_worker_was_busy():
    assert "busy" in busy_device([4.0, 3.5, 4.1, 3.9, 4.4, 3.8], [1.0, 1.1, 1.2, 1.0, 1.3, 1.1])


def test_slowing_the_reference_down_now_and_then_excuses_nothing():
    assert busy_device([4.0, 3.5, 4.1, 3.9, 4.4, 3.8, 4.0], [1.0, 4.2, 4.4, 1.2, 4.6, 1.1, 4.3])


def test_a_few_slow_turns_are_an_accident():
    theirs = [1.0, 1.1, 1.2, 1.0, 1.3, 1.1]
    assert not busy_device([9.0, 1.1, 1.0, 8.0, 1.2, 1.0], theirs)
    assert not busy_device([1.6, 1.7, 1.5, 1.6, 1.8, 1.9], theirs)
    assert not busy_device([9.0, 9.0, 9.0], theirs)


def test_a_batch_without_inputs_never_moves():
    sample = MemorySample(torch.zeros(512, dtype=torch.uint8), [], 4, random.Random(3))
    sample.look()
    assert not sample.moved()
