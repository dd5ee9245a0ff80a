"""Checks that returned outputs own their memory: overwrites them, retains some, and looks for changes.

Noise is written over every output before it is dropped, and read back at secret places: memory that stands
for several elements, or that something else still uses, does not hold it. A few outputs are retained and must
never change again. On a CPU the referee reads the worker's memory itself, which must have held the answer
before; on a GPU the worker copies it back.
"""

from __future__ import annotations

import io
import math
import random
import time
from dataclasses import dataclass

import torch

from kernelwright.evaluator.ipc import policy as bounds
from kernelwright.evaluator.ipc.contestant_messages import Collect, Drop, Overwrite
from kernelwright.evaluator.ipc.messages import A_co, Request
from kernelwright.evaluator.ipc.tensor_layout import Slot, unravel
from kernelwright.evaluator.ipc.tensor_tree import dtype_from
from kernelwright.evaluator.referee.worker import policy
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status

_HIGHEST_ADDRESS = 1 << 62
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers by their bytes, which torch computes with."""
_NOT_ITS_OWN = (
    "an output is not memory of its own: what its caller wrote to it was not found there afterwards; "
    "return tensors whose elements have each a place in memory that nothing else uses"
)
_ELSEWHERE = (
    "what was collected as an output does not lie in the memory that was returned, or was changed since"
)
_CHANGED = "an output that its caller kept was changed by a later call; return new memory from every call"


@dataclass(frozen=True, slots=True)
class Place:
    """An element of an output of a prepared call."""

    call: int
    leaf: int
    element: int
    """Its number in row-major order."""


@dataclass(frozen=True, slots=True)
class _Written:
    """Noise that was written to places of outputs."""

    places: list[Place]
    addresses: list[tuple[int, int]]
    """Addresses and sizes of the places, by the worker's account."""
    noise: list[bytes]


class ReturnedOutputs:
    """The outputs of one layout's last run, and those that were kept of earlier ones."""

    def __init__(self, worker: WorkerProcess, layout: str, slots: list[Slot], block: int) -> None:
        self._worker = worker
        self._layout = layout
        self._slots = slots
        self._block = block
        self._leaves = [number for number, slot in enumerate(slots) if is_tensor_memory(slot)]
        self._kept: list[_Written] = []
        self._noise: torch.Tensor | None = None
        self._first = self._count = 0
        self._excess_ms = 0.0
        self._where: object = []

    def note(self, first: int, count: int, where: object) -> None:
        """Note the calls of a run, and the places where the worker says that their outputs lie."""
        self._first, self._count, self._where = first, count, where

    def take_back(self, secret: random.Random, *, collect_ms: float = 0.0, looks: bool = True) -> float:
        """Overwrite the last run's outputs, look at them and at those that were kept, and drop them.

        The contents of their slots are lost. Unless it `looks`, a GPU's worker is not asked to show them,
        which it cannot know when it overwrites them; a CPU's memory is looked at in any case. Returns the
        worker's milliseconds on our clock: its time above what collecting the same outputs costs (dense
        copies are the reference).

        Raises:
            CandidateFailed: an output is not memory of its own, did not hold the answer, or one that was
                kept has changed.
        """
        was_frozen = self._worker.frozen
        places = self._draw(secret)
        self._require_answer(places)
        written = self._write_noise(secret, places)
        self._excess_ms = -collect_ms
        self._worker.thaw()
        self._ask(Overwrite(layout=self._layout, first=self._first))
        kept = [address for each in self._kept for address in each.addresses]
        found = self._peek([*written.addresses, *kept])  # in one question: each takes a millisecond
        if found is None:
            holds = not looks or self._holds(written, collect_ms)
            unchanged = not looks or (holds and self._kept_unchanged(secret))
        else:
            own = len(written.addresses)
            holds = found[:own] == written.noise
            unchanged = found[own:] == [noise for each in self._kept for noise in each.noise]
        if not holds:
            raise CandidateFailed(Status.WRONG_VALUES, _NOT_ITS_OWN)
        if not unchanged:
            raise CandidateFailed(Status.WRONG_VALUES, _CHANGED)
        keeps = self._leaves != [] and self._keeps_another(secret)
        self._drop(keeps, was_frozen)
        if keeps:
            self._keep(written)
        return self._excess_ms

    def drop(self) -> None:
        """Drop the last run's outputs without a look at them."""
        self._drop(False, self._worker.frozen)

    def _drop(self, keep: bool, was_frozen: bool) -> None:
        self._worker.thaw()
        self._ask(Drop(layout=self._layout, keep=keep))
        if was_frozen:
            self._worker.freeze()

    def _ask(self, request: Request[A_co]) -> A_co:
        began = time.perf_counter()
        answer = self._worker.ask(request, policy.TAKE_BACK_S)
        self._excess_ms += (time.perf_counter() - began) * 1e3
        return answer

    @property
    def _memory(self) -> torch.Tensor:
        return self._worker.blocks[self._block].data

    def _regions(self) -> list[tuple[Slot, torch.Tensor]]:
        """Memory of the last run's slots, by output."""
        spans = [
            (slot, slot["offset"] + self._first * slot["pitch"], self._count * slot["pitch"])
            for slot in self._slots
        ]
        return [(slot, self._memory[begin : begin + size]) for slot, begin, size in spans]

    def _require_answer(self, places: list[Place]) -> None:
        """On a CPU, compare memory where outputs are said to lie with the slots they were collected in.

        Raises:
            CandidateFailed: it holds something else, or lies in a file: a private mapping is one until it is
                written to.
        """
        held = self._peek([self._address(place) for place in places])
        if held is None:
            return
        types = [dtype_from(self._slots[place.leaf]["dtype"]) for place in places]
        if not all(map(is_same_element, types, held, self._bytes(places))):
            raise CandidateFailed(Status.WRONG_VALUES, _ELSEWHERE)

    def _write_noise(self, secret: random.Random, places: list[Place]) -> _Written:
        """Fill the slots with noise, and remember some of it: the worker can write to them as well."""
        if self._noise is None:
            generator = torch.Generator(self._memory.device).manual_seed(secret.getrandbits(48))
            self._noise = torch.randint(
                256,
                (2 * policy.NOISE_BYTES,),
                generator=generator,
                dtype=torch.uint8,
                device=self._memory.device,
            )
        for slot, region in self._regions():
            begin = secret.randrange(policy.NOISE_BYTES)
            noise = self._noise[begin : begin + policy.NOISE_BYTES]
            whole = region.numel() // policy.NOISE_BYTES * policy.NOISE_BYTES
            region[:whole].view(-1, policy.NOISE_BYTES).copy_(noise)
            region[whole:].copy_(noise[: region.numel() - whole])
            _make_storable(region, slot)
        addresses = [self._address(place) for place in places]
        written = _Written(places, addresses, self._bytes(places))
        self._worker.device.synchronize()
        return written

    def _draw(self, secret: random.Random) -> list[Place]:
        """Draw secret places in all calls, then as many in the last one."""
        last = self._first + self._count - 1
        calls = [secret.randrange(self._first, last + 1) for _ in range(policy.OVERWRITTEN_PLACES)]
        places = []
        for call in [*calls, *(last for _ in calls)] if self._leaves else []:
            leaf = secret.choice(self._leaves)
            places.append(Place(call, leaf, secret.randrange(math.prod(self._slots[leaf]["shape"]))))
        return places

    def _address(self, place: Place) -> tuple[int, int]:
        slot = self._slots[place.leaf]
        index = unravel(place.element, slot["shape"])
        return address_of(self._where, place.call - self._first, place.leaf, index), _itemsize(slot)

    def _bytes(self, places: list[Place], *, call: int | None = None) -> list[bytes]:
        """Bytes of places in the slots of their calls, or all of one call's."""
        spans = []
        for place in places:
            slot = self._slots[place.leaf]
            size, number = _itemsize(slot), place.call if call is None else call
            spans.append((slot["offset"] + number * slot["pitch"] + place.element * size, size))
        chosen = [begin + number for begin, size in spans for number in range(size)]
        index = torch.tensor(chosen, dtype=torch.int64, device="cpu").to(self._memory.device)
        found = io.BytesIO(bytes(self._memory.index_select(0, index).tolist()))
        return [found.read(size) for _, size in spans]

    def _holds(self, written: _Written, collect_ms: float) -> bool:
        """Look for the noise in outputs that the worker shows."""
        for _, region in self._regions():
            region.fill_(policy.POISON_BYTE)
        self._worker.device.synchronize()
        self._collect(kept=None)
        self._excess_ms -= collect_ms
        return self._bytes(written.places) == written.noise

    def _kept_unchanged(self, secret: random.Random) -> bool:
        """Let the worker show one of the kept outputs, and look at it."""
        if not self._kept:
            return True
        number = secret.randrange(len(self._kept))
        self._collect(kept=number)
        shown = self._kept[number]
        return self._bytes(shown.places, call=self._first) == shown.noise

    def _peek(self, addresses: list[tuple[int, int]]) -> list[bytes] | None:
        if self._worker.device.torch_device.type != "cpu":
            return None
        self._worker.freeze()
        return self._worker.peek(addresses)

    def _collect(self, *, kept: int | None) -> None:
        self._worker.thaw()
        request = Collect(layout=self._layout, first=self._first, kept=kept)
        complaint = self._ask(request).complaint
        if complaint:
            raise CandidateFailed(Status.TAMPERED, f"an output changed after it was collected: {complaint}")

    def _keeps_another(self, secret: random.Random) -> bool:
        """Decide on keeping the last call's outputs: the first that come, later ones at times."""
        size = sum(slot["pitch"] for slot in self._slots)
        if not self._kept or bounds.MAX_KEPT * size > policy.KEPT_BYTES:
            return not self._kept
        return secret.random() < policy.KEEP_CHANCE

    def _keep(self, written: _Written) -> None:
        half = len(written.places) // 2
        self._kept.append(_Written(written.places[half:], written.addresses[half:], written.noise[half:]))
        if len(self._kept) > bounds.MAX_KEPT:
            del self._kept[1]


def _make_storable(noise: torch.Tensor, slot: Slot) -> None:
    """Turn random bytes into values that every copy keeps bit by bit.

    A GPU copies lists of 16-bit numbers through float32, where a NaN becomes another one.
    """
    dtype = dtype_from(slot["dtype"])
    if dtype == torch.bool:
        noise.bitwise_and_(1)
    elif dtype.is_floating_point or dtype.is_complex:
        size = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        # Without the exponent's highest bit there is no infinity and no NaN.
        noise.view(INTEGERS[size]).bitwise_and_(0xBF if size == 1 else ~(1 << 8 * size - 2))


def is_same_element(dtype: torch.dtype, one: bytes, other: bytes) -> bool:
    """Compare an element's bytes with a copy's: any byte but 0 is true, and copies of it are 1."""
    if dtype == torch.bool:
        return len(one) == len(other) and any(one) == any(other)
    return one == other


def is_tensor_memory(slot: Slot) -> bool:
    """Return whether an output is a tensor with elements."""
    return not slot.get("number") and 0 not in slot["shape"]


def address_of(where: object, call: int, leaf: int, index: tuple[int, ...]) -> int:
    """Address of an element by the worker's own account; 0, where nothing lies, if that makes no sense."""
    try:
        numbers = where[call][leaf]  # type: ignore[index]
        # A text times a number would be as long as a worker likes.
        if type(numbers) is not list or any(type(number) is not int for number in numbers):
            return 0
        start, *strides = numbers
        address: int = start + sum(place * stride for place, stride in zip(index, strides, strict=True))
    except (TypeError, ValueError, LookupError):
        return 0
    return address if 0 < address < _HIGHEST_ADDRESS else 0


def _itemsize(slot: Slot) -> int:
    return dtype_from(slot["dtype"]).itemsize
