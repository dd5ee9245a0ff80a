"""A daemon that ignores every signal, and ways to see what lives and what is left."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelwright.evaluator.sandbox.isolation.cgroups import hierarchies

DAEMON = """
import os, signal, sys, time
reader, ready = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        os.write(int(sys.argv[1]), b"daemon")
        os.write(ready, b"x")
        while True:
            time.sleep(60)
    os._exit(0)
os.read(reader, 1)
"""


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    try:
        yield reader, writer
    finally:
        os.close(reader)


def read(reader: int) -> bytes:
    """What comes next; empty when nobody is left who could write."""
    ready, _, _ = select.select([reader], [], [], 60)
    assert ready, "neither words nor death within a minute"
    return os.read(reader, 100)


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "did not happen within a minute"
        time.sleep(0.01)


def leftover_names(owner: str) -> list[str]:
    folders = [*hierarchies().folders(), Path("/tmp")]
    return [name for folder in folders for name in _names(folder) if name.startswith(owner)]


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]
