"""The launcher's end of the socket to `init` inside a sandbox: sends a plan, receives lines."""

from __future__ import annotations

import marshal
import os
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.evaluator.sandbox.policy import CONTROL_LINE_BYTES

CREDENTIALS = struct.Struct("iII")


@dataclass(frozen=True, slots=True)
class ControlLine:
    """A line from inside the sandbox."""

    word: str
    rest: str
    pid: int
    """The sender in this process's pid namespace, as the kernel reports it."""


class ControlChannel:
    """A socket pair; `child` is the descriptor to pass on."""

    def __init__(self) -> None:
        self._socket, self._child = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._pending: list[ControlLine] = []
        self._partial = b""
        self.child = self._child.fileno()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close_child(self) -> None:
        """Close our copy of the other end, so that its death is noticed."""
        self._child.close()

    def send(self, plan: Mapping[str, object]) -> None:
        data = marshal.dumps(dict(plan))
        self._socket.sendall(f"{len(data):08x}".encode() + data)

    def receive(self, deadline: float) -> ControlLine | None:
        """The next line, or None when the other end is gone; raises TimeoutError after the `deadline`."""
        while not self._pending:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            if not self._read():
                return None
        return self._pending.pop(0)

    def read_available(self) -> list[ControlLine] | None:
        """All lines received so far; None when the other end is gone."""
        self._socket.setblocking(False)
        try:
            alive = self._read()
        except BlockingIOError:
            alive = True
        lines, self._pending = self._pending, []
        return lines if alive or lines else None

    def close(self) -> None:
        self._socket.close()
        self._child.close()

    def _read(self) -> bool:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(
                CONTROL_LINE_BYTES, socket.CMSG_SPACE(CREDENTIALS.size)
            )
        except ConnectionResetError:
            data, ancillary = b"", []
        pid = next(
            (CREDENTIALS.unpack(value)[0] for _, kind, value in ancillary if kind == socket.SCM_CREDENTIALS),
            0,
        )
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._partial = self._partial[-CONTROL_LINE_BYTES:]
        for line in lines:
            word, _, rest = line.decode("utf-8", "replace").partition(" ")
            self._pending.append(ControlLine(word, rest, pid))
        return bool(data)


def passing_file(name: str, content: bytes) -> int:
    """An anonymous file to pass to a child; the caller closes it."""
    descriptor = os.memfd_create(name)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
