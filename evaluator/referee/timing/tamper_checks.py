"""Checks that a worker's outputs were there when it answered.

Freezing stops a worker's threads, not the kernels they queued on a GPU. So samples at secret places show
that outputs were complete at the answer (`MemorySample`; on a CPU also `OutputSnapshot`, in the worker's own
memory: collecting a large output takes as long as copying it, in which it could be computed).
"""

from __future__ import annotations

import random

import torch

from kernelwright.evaluator.ipc.tensor_layout import Slot
from kernelwright.evaluator.ipc.tensor_tree import dtype_from
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.worker.output_ownership import address_of, is_tensor_memory
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess


class MemorySample:
    """Bytes at secret places of a batch, looked at twice."""

    def __init__(self, memory: torch.Tensor, slots: list[Slot], count: int, secret: random.Random) -> None:
        """`memory` is the uint8 block that holds the slots; places are drawn before the clock starts."""
        generator = torch.Generator().manual_seed(secret.getrandbits(48))
        drawn = [
            torch.randint(
                max(1, slot["pitch"] * count), (policy.SAMPLED_BYTES,), generator=generator, device="cpu"
            )
            + slot["offset"]
            for slot in slots
        ]
        places = torch.cat([*drawn, torch.empty(0, dtype=torch.int64, device="cpu")])
        self._memory = memory
        self._places = places.clamp_(max=memory.numel() - 1).to(memory.device)
        self._seen: torch.Tensor | None = None

    def look(self) -> None:
        """Remember the bytes there now."""
        self._seen = self._memory.index_select(0, self._places)

    def moved(self) -> bool:
        """Return whether other bytes are there by now."""
        return self._seen is not None and not torch.equal(
            self._seen, self._memory.index_select(0, self._places)
        )


class OutputSnapshot:
    """Elements of a batch's outputs in the worker's own memory, which must be collected unchanged.

    The worker says itself where its outputs lie; only what is found there counts.
    """

    def __init__(self, worker: WorkerProcess, slots: list[Slot], count: int, secret: random.Random) -> None:
        self._worker = worker
        self._sizes = [dtype_from(slot["dtype"]).itemsize for slot in slots]
        leaves = [number for number, slot in enumerate(slots) if is_tensor_memory(slot)]
        self._places: list[tuple[int, int, tuple[int, ...]]] = []
        for _ in range(policy.SAMPLED_ELEMENTS if leaves else 0):
            leaf = secret.choice(leaves)
            index = tuple(secret.randrange(size) for size in slots[leaf]["shape"])
            self._places.append((secret.randrange(count), leaf, index))
        self._found: list[bytes] | None = None

    def look(self, addresses: object) -> bool:
        """Read the elements where the worker says they lie; return False where the system forbids it."""
        if not self._places:
            return True
        asked = [(address_of(addresses, *place), self._sizes[place[1]]) for place in self._places]
        self._found = self._worker.peek(asked)
        return self._found is not None

    def differs(self, collected: list[torch.Tensor]) -> bool:
        """Return whether outputs, each [count, *shape], are others than were read."""
        return self._found is not None and any(
            found != _bytes(collected[leaf][call][index])
            for (call, leaf, index), found in zip(self._places, self._found, strict=True)
        )


def _bytes(element: torch.Tensor) -> bytes:
    return bytes(element.reshape(1).view(torch.uint8).tolist())
