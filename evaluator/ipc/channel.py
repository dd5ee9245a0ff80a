"""Messages between the three processes: JSON lines over a socket pair.

Standard library only: the contestant's side imports this too. A message from a contestant is a claim, never
evidence, so everything read here is bounded in size and time and nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

from kernelwright.evaluator.ipc.policy import MAX_DEPTH, MAX_FDS, MAX_MESSAGE_BYTES, SEND_S

# Any: free-form JSON; `messages.decode` checks every field.
JsonObject = dict[str, Any]


class ChannelError(Exception):
    """The other side is gone or does not speak the protocol."""


class ChannelClosed(ChannelError):
    """The other side closed its end or died."""


class ChannelGarbled(ChannelError):
    """Something received, or to be sent, is not a message."""


class ChannelTimeout(ChannelError):
    """No message within the time allowed."""


class Channel:
    """One end of a socket pair that carries JSON lines and, when asked, file descriptors."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._buffer = bytearray()
        self._fds: list[int] = []

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        """Take over an inherited descriptor."""
        return cls(socket.socket(fileno=fd))

    def send(self, message: JsonObject, fds: Sequence[int] = ()) -> None:
        """Send one message, with descriptors riding on its first byte.

        Raises:
            ChannelClosed: the other side is gone.
            ChannelGarbled: the other side could not receive it.
            ChannelTimeout: the other side does not read.
        """
        self.send_line(encoded(message), fds)

    def send_line(self, line: bytes, fds: Sequence[int] = ()) -> None:
        """Send what `encoded` gave, where encoding must not take time; raises what `send` does."""
        data = memoryview(line)
        deadline = time.monotonic() + SEND_S
        try:
            if fds:
                self._wait(select.POLLOUT, deadline)
                data = data[socket.send_fds(self._end, [data], list(fds)) :]
            while data:
                try:
                    data = data[self._end.send(data) :]
                except BlockingIOError:
                    self._wait(select.POLLOUT, deadline)
        except OSError as error:
            raise ChannelClosed(f"the other side is gone: {error}") from error

    def receive(self, timeout_s: float | None = None, *, with_fds: bool = False) -> JsonObject:
        """Receive the next message; raises ChannelClosed, ChannelGarbled or ChannelTimeout."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        scanned = 0
        while (end := self._buffer.find(b"\n", scanned)) < 0:
            scanned = len(self._buffer)
            if scanned > MAX_MESSAGE_BYTES:
                raise ChannelGarbled(f"a message longer than {MAX_MESSAGE_BYTES} bytes")
            self._wait(select.POLLIN, deadline)
            self._read(with_fds)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ChannelGarbled(f"not JSON: {error}") from error
        if not isinstance(message, dict):
            raise ChannelGarbled("not a JSON object")
        if _is_deep(message, line):
            raise ChannelGarbled(f"a message nested deeper than {MAX_DEPTH}")
        return message

    def speaks(self, timeout_s: float) -> bool:
        """Wait until a message begins to arrive or the other side ends; False if neither happens."""
        if self._buffer:
            return True
        try:
            self._wait(select.POLLIN, time.monotonic() + timeout_s)
        except ChannelTimeout:
            return False
        return True

    def take_fds(self) -> list[int]:
        """Descriptors that arrived since the last call; the caller owns them."""
        fds, self._fds = self._fds, []
        return fds

    def close(self) -> None:
        """Close this end."""
        with contextlib.suppress(OSError):
            self._end.close()

    def _read(self, with_fds: bool) -> None:
        try:
            if with_fds:
                data, fds, _, _ = socket.recv_fds(self._end, 1 << 20, MAX_FDS)
                self._fds += fds
            else:
                # A plain recv drops any descriptors a hostile peer attaches.
                data = self._end.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError as error:
            raise ChannelClosed(f"the other side is gone: {error}") from error
        if not data:
            raise ChannelClosed("the other side closed its end")
        self._buffer += data

    def _wait(self, event: int, deadline: float | None) -> None:
        poller = select.poll()
        poller.register(self._end, event)
        wait_ms = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1e3
        if not poller.poll(wait_ms):
            raise ChannelTimeout("no message in time")


def encoded(message: JsonObject) -> bytes:
    """One line of JSON; raises ChannelGarbled where it would be too long or too deep."""
    try:
        data = json.dumps(message, separators=(",", ":")).encode()
    except (ValueError, RecursionError) as error:
        raise ChannelGarbled(f"not JSON: {error}") from error
    if len(data) > MAX_MESSAGE_BYTES:
        raise ChannelGarbled(f"a message longer than {MAX_MESSAGE_BYTES} bytes")
    if _is_deep(message, data):
        raise ChannelGarbled(f"a message nested deeper than {MAX_DEPTH}")
    return data + b"\n"


def _is_deep(message: JsonObject, data: bytes) -> bool:
    """Look for nesting deeper than `MAX_DEPTH`, level by level."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    level: list[Any] = [message]  # Any: JSON
    for _ in range(MAX_DEPTH):
        level = [
            part
            for whole in level
            for part in (whole.values() if isinstance(whole, dict) else whole)
            if isinstance(part, dict | list | tuple)
        ]
        if not level:
            return False
    return True
