"""Disk space reserved for replies that are already paid for."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kernelwright.agent.archive.policy import RESERVED_BYTES

T = TypeVar("T")


class DiskReserve:
    """A placeholder file, deleted when its space is needed."""

    def __init__(self, path: Path) -> None:
        self.is_dropped = False
        """True once the disk was full; writers should stop."""
        self._path = path
        self._guard = threading.Lock()
        try:
            with path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVED_BYTES)
        except OSError:
            # A full disk, or a file system that cannot set space aside: then there is none to drop.
            path.unlink(missing_ok=True)

    def spend(self, write: Callable[[], T]) -> T:
        """Write; on a full disk release the reserve and write again.

        Raises:
            OSError: the disk is still full, or another error.
        """
        try:
            return write()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # Threads that find the disk full together wait for one to have freed the space, then write again.
            with self._guard:
                self.is_dropped = True
                self.remove()
            return write()

    def remove(self) -> None:
        """Release the reserved space."""
        self._path.unlink(missing_ok=True)
