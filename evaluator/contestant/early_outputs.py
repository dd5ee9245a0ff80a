"""Spoils outputs of calls that still wait behind their gate: what was written ahead of their inputs is lost.

Copy engines, and streams that never waited for the gate, work while a batch is queued, where no clock runs.
An answer writes all its elements after its inputs exist, so noise that lies there before changes nothing.
Small outputs are left alone: a GPU copies few bytes from the host on its multiprocessors, which are watched.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from kernelwright.evaluator.contestant.output_aliasing import dense_leaves
from kernelwright.evaluator.contestant.policy import SPOILED_CALLS
from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.devices.policy import NOISE_BYTES

_SECRET: Final = random.SystemRandom()


def spoil(returned: Sequence[Any], device: Device, is_shut: Callable[[], bool]) -> None:
    """Write noise to a part of each large output of a few calls, if the gate is shut, and wait for it.

    The outputs own their memory. A referee that has waited too long opens the gate, and calls may have begun.
    """
    chosen = _SECRET.sample(returned, min(SPOILED_CALLS, len(returned)))
    leaves = (leaf for leaf in dense_leaves(chosen) if leaf.device == device.torch_device and leaf.numel())
    places = [place for leaf in leaves if (place := _part(leaf)) is not None]
    if places and is_shut():
        device.write_noise(places)


def _part(leaf: torch.Tensor) -> tuple[int, int] | None:
    """Address and bytes of elements that lie in a row, at a random place of a tensor; None of too few."""
    length, offset = 1, 0
    for stride, size in sorted(zip(leaf.stride(), leaf.shape, strict=True)):
        if size > 1 and stride == length:
            length *= size
        elif size > 1:
            offset += _SECRET.randrange(size) * stride
    unit = leaf.element_size()
    taken = NOISE_BYTES // unit
    if length < taken:
        return None
    begin = offset + _SECRET.randrange(length - taken + 1)
    return leaf.data_ptr() + begin * unit, taken * unit
