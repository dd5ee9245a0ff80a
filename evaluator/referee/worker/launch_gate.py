"""A gate before the calls of a batch: a GPU has them all in its queue before their inputs exist.

Launching a kernel takes a host microseconds, often longer than the kernel takes, and processes differ in that
by a tenth as long as they live. With the launches over before the clock starts, what is left is the GPU's
time, which hardly differs. And nobody can work ahead: inputs are written when all is queued, and the write
that opens the gate follows them.

Where nothing is queued, the process of a lone call waits at the gate itself, so that it is awake when the
clock starts. On a CPU it has made calls on other inputs before: caches and threads are as in the middle of a
batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch

from kernelwright.evaluator.devices import Block

WORD_BYTES: Final = 4
MAX_QUEUED_CALLS: Final = 1024
"""Calls to queue at once; a device's queue holds a few thousand launches, then launching waits."""
QUEUE_LAUNCHES: Final = 2048
"""Launches a queue is taken to hold. 512 calls of six operations fit on an H200 and 1024 do not; 1024 calls
of three do not fit on an H100."""


@dataclass(slots=True)
class LaunchGate:
    """A word of memory that both processes see and that a worker's calls wait for."""

    block: int
    """The worker's block that holds it."""
    word: torch.Tensor
    ticket: int = 0
    """The value of the word that releases the calls queued last."""
    largest_queued: int = 0
    """Calls of the largest batch that was queued as a whole."""
    capacity: int = MAX_QUEUED_CALLS
    """Calls of the largest batch worth trying."""

    def expect(self, launches: int) -> None:
        """Limit batches by the launches of a call: those that surely do not fit cost seconds to try."""
        self.limit(max(1, QUEUE_LAUNCHES // max(1, launches)))

    def limit(self, calls: int) -> None:
        """Try no larger batches."""
        self.capacity = min(self.capacity, calls)

    def like(self, other: LaunchGate) -> None:
        """Take over what is known of the same worker's queue."""
        self.largest_queued, self.capacity = other.largest_queued, other.capacity

    def set_capacity(self, calls: int) -> None:
        """Try batches up to this size, however many fitted before."""
        self.capacity = min(calls, MAX_QUEUED_CALLS)

    def note_queued(self, calls: int) -> None:
        """Remember that a batch was queued as a whole."""
        self.largest_queued = max(self.largest_queued, calls)

    def shut(self) -> int:
        """Make the next calls wait; returns the value they wait for."""
        self.ticket += 1
        return self.ticket

    def open(self) -> None:
        """Let them run: what they read must be there."""
        self.word.fill_(self.ticket)

    @contextlib.contextmanager
    def opened_on_failure(self) -> Iterator[None]:
        """Open the gate where something fails: nothing else would end the wait behind it."""
        try:
            yield
        except BaseException:
            self.open()
            raise


def gate(blocks: list[Block], block: int) -> LaunchGate:
    """Make a shut gate in a block that is kept for it."""
    return LaunchGate(block, blocks[block].data[:WORD_BYTES].view(torch.int32))
