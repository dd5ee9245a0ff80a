"""Peeking: memory of a stopped program can be read from outside it, and tells nothing once it is dead."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Inside


def test_memory_of_a_stopped_program_can_be_looked_at_and_nothing_else_of_it(inside: Inside) -> None:
    code = """
import ctypes, os, time
text = ctypes.create_string_buffer(b"what lies here")
print(ctypes.addressof(text), flush=True)
time.sleep(60)
"""
    running = inside.start(code)
    try:
        deadline = time.monotonic() + 30
        while not (said := running.output().strip()) and time.monotonic() < deadline:
            time.sleep(0.01)
        running.freeze()
        found = running.peek([(int(said), 4), (int(said) + 5, 4), (0, 4), (1 << 63, 4), (1 << 60, 1)])
        assert found == [b"what", b"lies", b"", b"", b""]
    finally:
        running.kill()
    assert running.peek([(int(said), 4)]) in (None, [b""])


def test_memory_that_may_be_mapped_twice_is_told_from_memory_of_its_own(inside: Inside) -> None:
    code = """
import ctypes, mmap, time
own = ctypes.create_string_buffer(1 << 20)
shared = mmap.mmap(-1, 4096)
shared[0] = 1
print(ctypes.addressof(own) + 5000, ctypes.addressof(ctypes.c_char.from_buffer(shared)), flush=True)
time.sleep(60)
"""
    running = inside.start(code)
    try:
        deadline = time.monotonic() + 30
        while not (said := running.output().split()) and time.monotonic() < deadline:
            time.sleep(0.01)
        running.freeze()
        own, shared = map(int, said)
        assert not running.shares_memory([own, 0, 1 << 63])
        assert running.shares_memory([own, shared])
    finally:
        running.kill()
    assert not running.shares_memory([shared])
