"""Landlock rules of a confined process for each version of the interface; `init` applies them.

Source of the numbers: linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Mapping
from functools import cache

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
PROCESS = READ_FILE | WRITE_FILE | READ_DIR | TRUNCATE
"""CUDA does not start unless it can name its threads in /proc."""
DEVICE = READ_FILE | WRITE_FILE | READ_DIR | TRUNCATE | IOCTL_DEVICE
EVERYTHING = (1 << 16) - 1
WRITE = EVERYTHING & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEVICE)
FILE_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file rights each version knows."""
TCP = 1 | 2
"""Bind and connect, version 4."""
SCOPES = 1 | 2
"""Abstract UNIX sockets and signals to the outside, version 6."""


@cache
def abi() -> int:
    """This kernel's Landlock version; 0 without Landlock."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(444, None, 0, 1)))


def restriction(paths: Iterable[tuple[str, int]], *, network: bool) -> Mapping[str, object]:
    """A ruleset for this kernel: these paths with these rights, and TCP only with `network`."""
    version = abi()
    handled = (1 << FILE_RIGHTS_BY_ABI[min(version, 5)]) - 1
    attribute = struct.pack("=Q", handled)
    if version >= 4:
        attribute += struct.pack("=Q", 0 if network else TCP)
    if version >= 6:
        attribute += struct.pack("=Q", SCOPES)
    rules = [(path, rights & handled) for path, rights in dict(paths).items()]
    return {"attribute": attribute, "rules": rules}
