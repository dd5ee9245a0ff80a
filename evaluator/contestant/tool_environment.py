"""Removes variables that name a tool from the process's environment, once the tool has read them."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_TOOLS: Final = ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS")


def hide_tools() -> None:
    """Remove them from `os.environ`, and from `/proc/self/environ`, which shows what a process began with."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    for name in _TOOLS:
        value = getenv(name.encode())
        if value:
            text = os.fsencode(f"{name}={os.environ.pop(name)}")
            ctypes.memset(value - len(name) - 1, 0, len(text))
