"""What a GPU shows of a side that claims to be idle: freezing stops its threads, not the kernels they queued.

Two claims are checked: that the work was over when the answer came (a sample of the outputs, taken at once,
is what is found there later), and that nothing ran while inputs were published (a running kernel slows that
down, since processes share a GPU by taking turns on it).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import torch

from kernelwright.evaluator.ipc.tensor_layout import Slot
from kernelwright.evaluator.referee.timing.statistics import quantile

_PLACES: Final = 4096
_BUSY_FACTOR: Final = 1.5
_BUSY_MS: Final = 0.5
_FEWEST: Final = 5


class MemorySample:
    """Bytes at secret places of a batch, seen at one moment and looked at again later."""

    def __init__(self, memory: torch.Tensor, slots: list[Slot], count: int, secret: random.Random) -> None:
        """`memory` is the uint8 block that holds the slots; drawn before the clock starts."""
        generator = torch.Generator().manual_seed(secret.getrandbits(48))
        drawn = [
            torch.randint(max(1, slot["pitch"] * count), (_PLACES,), generator=generator, device="cpu")
            + slot["offset"]
            for slot in slots
        ]
        places = torch.cat([*drawn, torch.empty(0, dtype=torch.int64, device="cpu")])
        self._memory = memory
        self._places = places.clamp_(max=memory.numel() - 1).to(memory.device)
        self._seen: torch.Tensor | None = None

    def look(self) -> None:
        """Remember what is there now."""
        self._seen = self._memory.index_select(0, self._places)

    def moved(self) -> bool:
        """Whether something else is there by now."""
        return self._seen is not None and not torch.equal(
            self._seen, self._memory.index_select(0, self._places)
        )


def busy(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Why publishing to a frozen candidate took so much longer than to the baseline; empty when it did not.

    Milliseconds of each turn. Most of the candidate's must exceed the baseline's quicker ones by far: a few
    slow ones are an accident, and whoever slows the baseline down now and then gains nothing by it.
    """
    if min(len(ours), len(theirs)) < _FEWEST:
        return ""
    usual, expected = quantile(ours, 0.25), quantile(theirs, 0.25)
    if usual <= _BUSY_FACTOR * expected + _BUSY_MS:
        return ""
    return (
        f"the device was busy while the process was stopped: publishing inputs took {usual:.2f} ms or more "
        f"in three of four turns, and {expected:.2f} ms or less for the reference in one of four"
    )
