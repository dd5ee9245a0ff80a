"""Checks that a worker did no work behind the clock's back.

Freezing stops a worker's threads, not the kernels they queued on a GPU. So samples at secret places show
that outputs were complete at the answer (`MemorySample`; on a CPU also `OutputSnapshot`, in the worker's own
memory: collecting a large output takes as long as copying it, in which it could be computed). And publishing
inputs takes longer while a kernel runs, since processes share a GPU by turns (`busy_device`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from kernelwright.evaluator.ipc.tensor_layout import Slot
from kernelwright.evaluator.ipc.tensor_tree import dtype_from
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.statistics import quantile
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess

_HIGHEST_ADDRESS = 1 << 62


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
        leaves = [number for number, slot in enumerate(slots) if _is_tensor_memory(slot)]
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
        asked = [(_address(addresses, place), self._sizes[place[1]]) for place in self._places]
        self._found = self._worker.peek(asked)
        return self._found is not None

    def differs(self, collected: list[torch.Tensor]) -> bool:
        """Return whether outputs, each [count, *shape], are others than were read."""
        return self._found is not None and any(
            found != _bytes(collected[leaf][call][index])
            for (call, leaf, index), found in zip(self._places, self._found, strict=True)
        )


def _is_tensor_memory(slot: Slot) -> bool:
    return not slot.get("number") and 0 not in slot["shape"]


def _address(addresses: object, place: tuple[int, int, tuple[int, ...]]) -> int:
    """Address of an element by the worker's own account; 0, where nothing lies, if that makes no sense."""
    call, leaf, index = place
    try:
        start, *strides = addresses[call][leaf]  # type: ignore[index]
        step = sum(place * stride for place, stride in zip(index, strides, strict=True))
        address = int(start + step)
    except (TypeError, ValueError, LookupError, OverflowError):
        return 0
    return address if 0 < address < _HIGHEST_ADDRESS else 0


def _bytes(element: torch.Tensor) -> bytes:
    return bytes(element.reshape(1).view(torch.uint8).tolist())


def busy_device(candidate: Sequence[float], baseline: Sequence[float]) -> str:
    """Describe how much longer publishing took for a frozen candidate than for the baseline, if it did.

    Milliseconds of each turn. Most of the candidate's must exceed the baseline's quicker ones by far.
    """
    if min(len(candidate), len(baseline)) < policy.BUSY_TURNS:
        return ""
    usual, expected = (quantile(times, policy.BUSY_QUANTILE) for times in (candidate, baseline))
    if usual <= policy.BUSY_FACTOR * expected + policy.BUSY_MS:
        return ""
    return (
        f"the device was busy while the process was stopped: publishing inputs took {usual:.2f} ms or more "
        f"in three of four turns, and {expected:.2f} ms or less for the reference in one of four"
    )
