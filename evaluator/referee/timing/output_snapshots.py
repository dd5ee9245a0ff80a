"""What lay in a process when it answered: what it hands over later must be that.

Collecting a large answer takes as long as copying it. Who computed it only then, into the place it is copied
to, would be paid for by what the trusted side takes to copy, so a look is taken at secret places while the
process is stopped. It says itself where its outputs lie; only what is found there counts.
"""

from __future__ import annotations

import random
from typing import Final

import torch

from kernelwright.evaluator.ipc.tensor_layout import Slot
from kernelwright.evaluator.ipc.tensor_tree import dtype_from
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess

_PLACES: Final = 64


class OutputSnapshot:
    """Elements of a batch's outputs, at places drawn before anybody ran."""

    def __init__(self, side: WorkerProcess, slots: list[Slot], count: int, secret: random.Random) -> None:
        self._side = side
        self._sizes = [dtype_from(slot["dtype"]).itemsize for slot in slots]
        leaves = [number for number, slot in enumerate(slots) if _is_plain(slot)]
        self._places: list[tuple[int, int, tuple[int, ...]]] = []
        for _ in range(_PLACES if leaves else 0):
            leaf = secret.choice(leaves)
            index = tuple(secret.randrange(size) for size in slots[leaf]["shape"])
            self._places.append((secret.randrange(count), leaf, index))
        self._found: list[bytes] | None = None

    def look(self, where: object) -> bool:
        """Remember what lies where the process says; False where the system does not let us see."""
        if not self._places:
            return True
        asked = [(_address(where, place), self._sizes[place[1]]) for place in self._places]
        self._found = self._side.peek(asked)
        return self._found is not None

    def differs(self, collected: list[torch.Tensor]) -> bool:
        """Whether outputs, each [count, *shape], are not what was seen."""
        return self._found is not None and any(
            found != _bytes(collected[leaf][call][index])
            for (call, leaf, index), found in zip(self._places, self._found, strict=True)
        )


def _is_plain(slot: Slot) -> bool:
    """Whether its bits lie in memory that a call returned."""
    return not slot.get("number") and 0 not in slot["shape"]


def _address(where: object, place: tuple[int, int, tuple[int, ...]]) -> int:
    """Where an element lies, by what the process says; 0, where nothing lies, if that makes no sense."""
    call, leaf, index = place
    try:
        start, *strides = where[call][leaf]  # type: ignore[index]
        step = sum(place * stride for place, stride in zip(index, strides, strict=True))
        address = int(start + step)
    except (TypeError, ValueError, LookupError, OverflowError):
        return 0
    return address if 0 < address < 1 << 62 else 0


def _bytes(element: torch.Tensor) -> bytes:
    return bytes(element.reshape(1).view(torch.uint8).tolist())
