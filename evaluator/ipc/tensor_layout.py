"""Places in shared memory: where the tensors of call k lie, and the views that reach them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from kernelwright.evaluator.ipc.tensor_tree import dtype_from, dtype_name

ALIGNMENT = 512

# Any: a slot is a JSON object (block, offset, pitch, dtype, shape, stride).
Slot = dict[str, Any]


def span_bytes(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first to its last element, gaps included."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def place(
    tensors: Iterable[torch.Tensor], *, count: int, block: int, start: int = 0
) -> tuple[list[Slot], int]:
    """Lay out `count` copies of each tensor one after another; returns the slots and the bytes used.

    Strides are kept unless elements overlap, so a transposed argument arrives transposed.
    """
    slots: list[Slot] = []
    offset = start
    for tensor in tensors:
        dense = tensor if _keeps_strides(tensor) else tensor.contiguous()
        pitch = -(-max(span_bytes(dense), 1) // ALIGNMENT) * ALIGNMENT
        slots.append(
            {
                "block": block,
                "offset": offset,
                "pitch": pitch,
                "dtype": dtype_name(tensor.dtype),
                "shape": list(tensor.shape),
                "stride": list(dense.stride()),
            }
        )
        offset += pitch * count
    return slots, offset


def unravel(element: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index of a row-major number; torch's own function imports its compiler, which takes seconds."""
    index = []
    for size in reversed(shape):
        element, place = divmod(element, size)
        index.append(place)
    return tuple(reversed(index))


def dense_number(index: Sequence[int], shape: Sequence[int]) -> int:
    """The row-major number of an index."""
    number = 0
    for place, size in zip(index, shape, strict=True):
        number = number * size + place
    return number


def _keeps_strides(tensor: torch.Tensor) -> bool:
    """Dense up to a permutation of dimensions, or with gaps but no overlap."""
    reach = 1
    for size, stride in sorted(zip(tensor.shape, tensor.stride(), strict=True), key=lambda pair: pair[1]):
        if size == 1:
            continue
        if stride < reach:
            return False
        reach = stride * size
    return span_bytes(tensor) <= 4 * max(tensor.numel(), 1) * tensor.element_size()


def view(memory: torch.Tensor, slot: Slot, index: int) -> torch.Tensor:
    """The tensor of call `index` inside a block's uint8 memory."""
    return stacked(memory, slot, index, 1)[0]


def exact_copy(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy in an allocation of its own that ends where the tensor ends: an overrun leaves it."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return copy.copy_(tensor)


def stacked(memory: torch.Tensor, slot: Slot, first: int, count: int) -> torch.Tensor:
    """Calls `first` to `first + count` as one tensor of shape [count, *shape]."""
    dtype = dtype_from(slot["dtype"])
    shape, stride = tuple(slot["shape"]), tuple(slot["stride"])
    if 0 in shape:
        return torch.empty((count, *shape), dtype=dtype, device=memory.device)
    begin = slot["offset"] + first * slot["pitch"]
    whole = memory[begin : begin + count * slot["pitch"]].view(dtype)
    return whole.as_strided((count, *shape), (slot["pitch"] // dtype.itemsize, *stride))
