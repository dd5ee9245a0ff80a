"""One thread reads for all sandboxes: nothing that happens to one of them may end it."""

from __future__ import annotations

import os
import threading

from kernelwright.evaluator.sandbox.process.event_loop import EventLoop


def test_a_descriptor_that_was_closed_unread_may_come_again():
    """A sandbox that is slow to end is released before its last line was read."""
    loop, seen = EventLoop(), threading.Event()
    waiting, other = os.pipe()
    loop.watch(waiting, lambda: None)
    ready, writer = os.pipe()
    loop.watch(ready, seen_once := _Reads(ready))
    os.write(writer, b"x")
    assert seen_once.happened.wait(10), "both are registered by now"
    os.dup2(ready, waiting)  # closes the one, and gives its number to the other

    def read() -> None:
        os.read(waiting, 1)
        seen.set()

    loop.watch(waiting, read)
    os.write(writer, b"y")
    assert seen.wait(10)
    loop.close()
    for descriptor in (waiting, other, ready, writer):
        os.close(descriptor)


class _Reads:
    """Reads a descriptor once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.happened = threading.Event()

    def __call__(self) -> None:
        os.read(self._descriptor, 1)
        self.happened.set()
