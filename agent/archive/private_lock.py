"""A lock on a file that only its user can open, so that nobody else can hold it; the kernel frees it."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernelwright.agent.archive.policy import LOCK_POLL_S


def take_lock(path: Path, *, wait_s: float = 0.0) -> int:
    """Make and lock a file; return its descriptor, whose closing frees the lock.

    Raises:
        BlockingIOError: another process of this user has held it for `wait_s`.
        OSError: it cannot be made or opened, or is a link.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    end = time.monotonic() + wait_s
    try:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            if time.monotonic() >= end:
                raise BlockingIOError(errno.EAGAIN, "held by another process", str(path))
            time.sleep(LOCK_POLL_S)
    except BaseException:
        os.close(lock)
        raise


@contextmanager
def locked(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold the lock of a file; raises what `take_lock` does."""
    lock = take_lock(path, wait_s=wait_s)
    try:
        yield
    finally:
        os.close(lock)
