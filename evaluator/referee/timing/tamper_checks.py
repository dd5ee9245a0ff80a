"""Checks that a worker's outputs were there when it answered.

Freezing stops a worker's threads, not the kernels they queued on a GPU. So samples at secret places show
that outputs were complete at the answer (`MemorySample`; on a CPU also `AnswerSample`, in the worker's own
memory: collecting a large output takes as long as copying it, in which it could be computed).
"""

from __future__ import annotations

import itertools
import random
from array import array
from dataclasses import dataclass

import torch

from kernelwright.evaluator.ipc.tensor_layout import Slot, dense_number
from kernelwright.evaluator.ipc.tensor_tree import dtype_from
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.worker.output_ownership import is_same_element, is_tensor_memory
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess


class MemorySample:
    """Bytes at secret places of a batch, looked at twice."""

    def __init__(
        self,
        memory: torch.Tensor,
        slots: list[Slot],
        count: int,
        secret: random.Random,
        *,
        places: int = policy.SAMPLED_BYTES,
    ) -> None:
        """`memory` is the uint8 block that holds the slots; places are drawn before the clock starts."""
        generator = torch.Generator().manual_seed(secret.getrandbits(48))
        drawn = [
            torch.randint(max(1, slot["pitch"] * count), (places,), generator=generator, device="cpu")
            + slot["offset"]
            for slot in slots
        ]
        chosen = torch.cat([*drawn, torch.empty(0, dtype=torch.int64, device="cpu")])
        self._memory = memory
        self._places = chosen.clamp_(max=memory.numel() - 1).to(memory.device)
        self._seen: torch.Tensor | None = None

    def look(self) -> None:
        """Remember the bytes there now."""
        self._seen = self._memory.index_select(0, self._places)

    def moved(self) -> bool:
        """Return whether other bytes are there by now."""
        return self._seen is not None and not torch.equal(
            self._seen, self._memory.index_select(0, self._places)
        )


class AnswerSample:
    """Elements of a batch's outputs and state in the worker's own memory, which must be collected unchanged.

    The worker says with its answer where they lie, before it can know which of them are looked at; only what
    is found there counts. They are looked at while it still runs: freezing it first would wait for system
    calls, which go on writing.
    """

    def __init__(
        self,
        worker: WorkerProcess,
        outputs: list[Slot],
        state: list[Slot],
        count: int,
        secret: random.Random,
    ) -> None:
        """Draw places before the clock starts; of `state` there is one for all calls."""
        self._worker = worker
        told = [(call, leaf) for call in range(count) for leaf in range(len(outputs))]
        told += [(0, leaf) for leaf in range(len(outputs), len(outputs) + len(state))]
        slots = [*outputs, *state]
        words = [0, *itertools.accumulate(1 + len(slots[leaf]["shape"]) for _, leaf in told)]
        self._lengths = (len(told), words[-1])
        seen = [number for number, (_, leaf) in enumerate(told) if is_tensor_memory(slots[leaf])]
        # Most bytes lie in large outputs, and small ones count as well.
        sizes = [slots[told[number][1]]["pitch"] for number in seen]
        half = policy.SAMPLED_ELEMENTS // 2
        drawn = [*secret.choices(seen, sizes, k=half), *secret.choices(seen, k=half)] if seen else []
        self._places = [
            _Place.drawn(*told[number], number, words[number], slots[told[number][1]], secret)
            for number in drawn
        ]
        if self._places:
            worker.open_memory()
        self._found: list[bytes] | None = None

    def look(self, places: str) -> None:
        """Read the elements where the worker says they lie."""
        try:
            told = array("q", bytes.fromhex(places))
        except ValueError:
            told = array("q")
        dense, strided = self._lengths
        if len(told) == dense:
            asked = [(told[place.number] + place.offset, place.size) for place in self._places]
        elif len(told) == strided:
            asked = [(place.strided(told), place.size) for place in self._places]
        else:
            asked = [(0, place.size) for place in self._places]
        self._found = self._worker.look(asked)

    def differs(self, collected: list[torch.Tensor]) -> bool:
        """Return whether outputs and state, each [count, *shape], are others than were read."""
        return self._found is not None and any(
            not is_same_element(element.dtype, found, _bytes(element))
            for place, found in zip(self._places, self._found, strict=True)
            for element in (collected[place.leaf][place.call][place.index],)
        )


@dataclass(frozen=True, slots=True)
class _Place:
    """A secret element, and where its tensor stands in what a worker tells."""

    call: int
    leaf: int
    index: tuple[int, ...]
    size: int
    """Of the element, in bytes."""
    offset: int
    """From the tensor's start, in bytes, where it is contiguous."""
    number: int
    """Of its tensor, where only addresses are told."""
    word: int
    """Of its tensor's address, where strides follow each."""

    @classmethod
    def drawn(cls, call: int, leaf: int, number: int, word: int, slot: Slot, secret: random.Random) -> _Place:
        index = tuple(secret.randrange(size) for size in slot["shape"])
        size = dtype_from(slot["dtype"]).itemsize
        return cls(call, leaf, index, size, size * dense_number(index, slot["shape"]), number, word)

    def strided(self, told: array[int]) -> int:
        """Address by the strides that were told."""
        strides = told[self.word + 1 : self.word + 1 + len(self.index)]
        return told[self.word] + sum(step * place for step, place in zip(strides, self.index, strict=True))


def _bytes(element: torch.Tensor) -> bytes:
    return bytes(element.reshape(1).view(torch.uint8).tolist())
