"""One process on the other end of a socket pair."""

from __future__ import annotations

import socket
from collections.abc import Callable

from kernelwright.evaluator.sandbox import SandboxedProcess


def connected(start: Callable[[int], SandboxedProcess]) -> tuple[socket.socket, SandboxedProcess]:
    """Start a process with the number of its end of a socket pair; return our end and the process."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            return ours, start(theirs.fileno())
    except BaseException:
        ours.close()
        raise
