import torch

from kernelwright.evaluator.ipc.tensor_layout import place, stacked, view


def test_strides_survive_and_calls_do_not_overlap():
    tensors = [torch.randn(3, 5).t(), torch.arange(7), torch.zeros(0, 4), torch.tensor(2.0)]
    slots, size = place(tensors, count=3, block=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    for index in range(3):
        for slot, tensor in zip(slots, tensors, strict=True):
            view(memory, slot, index).copy_(tensor * (index + 1))
    for index in range(3):
        for slot, tensor in zip(slots, tensors, strict=True):
            seen = view(memory, slot, index)
            assert torch.equal(seen, tensor * (index + 1))
            assert tensor.numel() == 0 or seen.stride() == tensor.stride()


def test_stacked_is_all_calls_at_once():
    slots, size = place([torch.zeros(2, 3)], count=4, block=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    for index in range(4):
        view(memory, slots[0], index).fill_(index)
    assert stacked(memory, slots[0], 1, 3)[:, 0, 0].tolist() == [1.0, 2.0, 3.0]


def test_overlapping_inputs_are_made_dense():
    slots, _ = place([torch.zeros(1).expand(8)], count=1, block=0)
    assert slots[0]["stride"] == [1]
