"""Space set aside on the disk, so that replies which are already paid for fit when it is full."""

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
    """A file of no use, dropped when its space is needed."""

    def __init__(self, path: Path) -> None:
        self.is_dropped = False
        """True once the disk was found full; whoever writes should come to an end."""
        self._path = path
        self._guard = threading.Lock()
        try:
            with path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVED_BYTES)
        except OSError:
            # A full disk, or a file system that cannot set space aside: then there is none to drop.
            path.unlink(missing_ok=True)

    def spend(self, write: Callable[[], T]) -> T:
        """Write; on a full disk drop the ballast and write again.

        Raises:
            OSError: there was no room even so, or something else is wrong.
        """
        try:
            return write()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._drop()
            return write()

    def _drop(self) -> None:
        # Threads that find the disk full together wait for one to have freed the space, then all write again.
        with self._guard:
            self.is_dropped = True
            self._path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Give the space back."""
        self._path.unlink(missing_ok=True)
