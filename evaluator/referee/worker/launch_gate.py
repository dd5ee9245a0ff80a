"""A gate before the calls of a batch: a GPU has them all in its queue before their inputs exist.

Launching a kernel takes a host microseconds, often longer than the kernel takes, and processes differ in that
by a tenth as long as they live. With the launches over before the clock starts, what is left is the GPU's
time, which hardly differs. And nobody can work ahead: inputs are written when all is queued, and the write
that opens the gate follows them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch

from kernelwright.evaluator.devices import Block, Device

WORD_BYTES: Final = 4
MOST_QUEUED: Final = 1024
"""Calls asked to be queued at once; a device's queue holds a few thousand launches, then launching waits."""
_QUEUE_HOLDS: Final = 3072
"""Launches; 512 calls of six operations fit on an H200, and 1024 do not."""


@dataclass(slots=True)
class LaunchGate:
    """A word of memory that both processes see and that a side's calls wait for."""

    block: int
    """Which of the side's blocks it lies in."""
    word: torch.Tensor
    ticket: int = 0
    """What the word must reach for the calls queued last."""
    tried: int = 0
    """The largest batch that was queued as a whole."""
    most: int = MOST_QUEUED
    """No larger one is worth trying."""

    def expect(self, launches: int) -> None:
        """A call is known to consist of so many: batches that surely do not fit cost seconds to try."""
        self.most = max(1, min(self.most, _QUEUE_HOLDS // max(1, launches)))

    def shut(self) -> int:
        """Make the next calls wait; returns what for."""
        self.ticket += 1
        return self.ticket

    def open(self) -> None:
        """Let them run, after what this process has queued itself."""
        self.word.fill_(self.ticket)

    @contextlib.contextmanager
    def opened_on_failure(self) -> Iterator[None]:
        """Whoever waits behind a gate that nobody opens waits for ever."""
        try:
            yield
        except BaseException:
            self.open()
            raise


def gate(device: Device, blocks: list[Block], block: int) -> LaunchGate | None:
    """A shut gate in a block that is kept for it; None where a device cannot wait for one."""
    word = blocks[block].data[:WORD_BYTES].view(torch.int32)
    return LaunchGate(block, word) if device.waits_for(word, 0) else None
