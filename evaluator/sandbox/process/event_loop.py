"""One thread reads the output and control lines of all sandboxes, within bounded memory."""

from __future__ import annotations

import os
import re
import selectors
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from kernelwright.evaluator.sandbox.policy import READ_BYTES, READ_PAUSE_S, WATCHDOG_S

UNPRINTED = re.compile(r"[^\n\t\x20-\x7e]")


class OutputCapture:
    """Keeps the beginning and the end of a stream."""

    def __init__(self, descriptor: int, limit_bytes: int) -> None:
        self._descriptor = descriptor
        self._half = max(1, limit_bytes // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._lock = threading.Lock()
        self.ended = threading.Event()
        """Set when all writers have closed the stream."""

    def read(self) -> float | None:
        """Read once; returns seconds to pause before the next read, or None at the end."""
        try:
            piece = os.read(self._descriptor, READ_BYTES)
        except OSError:
            piece = b""
        if not piece:
            os.close(self._descriptor)
            self.ended.set()
            return None
        with self._lock:
            self._total += len(piece)
            room = self._half - len(self._head)
            self._head += piece[: max(0, room)]
            self._tail += piece[max(0, room) :]
            if len(self._tail) > 2 * self._half:
                del self._tail[: -self._half]
            return READ_PAUSE_S if self._total > 4 * self._half else 0.0

    def text(self) -> str:
        with self._lock:
            head, tail = bytes(self._head), bytes(self._tail[-self._half :])
            left_out = self._total - len(head) - len(tail)
        if left_out:
            return f"{_printable(head)}\n[{left_out} bytes left out]\n{_printable(tail)}"
        return _printable(head + tail)


class EventLoop:
    """Calls back when descriptors become readable, and at regular intervals."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._new: list[tuple[int, Callable[[], float | None]]] = []
        self._paused: list[tuple[float, int, Callable[[], float | None]]] = []
        self._tickers: list[Callable[[], bool]] = []
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="sandbox-events", daemon=True)
        self._thread.start()

    def watch(self, descriptor: int, read: Callable[[], float | None]) -> None:
        """Call `read` when a descriptor is readable; it returns seconds to pause, or None to stop."""
        with self._lock:
            self._new.append((descriptor, read))
        self._wake()

    def tick(self, check: Callable[[], bool]) -> None:
        """Call `check` every `WATCHDOG_S` seconds until it returns False."""
        with self._lock:
            self._tickers.append(check)
        self._wake()

    def close(self) -> None:
        self._closing = True
        self._wake()
        self._thread.join()
        self._selector.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_writer, b"w")

    def _run(self) -> None:
        next_tick = 0.0
        while not self._closing:
            self._register()
            for key, _ in self._selector.select(self._timeout()):
                if key.data is None:
                    os.read(self._wake_reader, 4096)
                else:
                    self._serve(key.fd, key.data)
            if self._tickers and time.monotonic() >= next_tick:
                next_tick = time.monotonic() + WATCHDOG_S
                done = [check for check in list(self._tickers) if not _continues(check)]
                with self._lock:
                    self._tickers = [check for check in self._tickers if check not in done]

    def _register(self) -> None:
        with self._lock:
            new, self._new = self._new, []
        now = time.monotonic()
        due = [entry for entry in self._paused if entry[0] <= now]
        self._paused = [entry for entry in self._paused if entry[0] > now]
        for descriptor, read in [*new, *(entry[1:] for entry in due)]:
            if descriptor in self._selector.get_map():
                # Its number was another's, who closed it unread: nobody waits for a stream on a busy machine.
                self._selector.unregister(descriptor)
            self._selector.register(descriptor, selectors.EVENT_READ, read)

    def _timeout(self) -> float | None:
        waits = [entry[0] - time.monotonic() for entry in self._paused]
        if self._tickers:
            waits.append(WATCHDOG_S)
        return max(0.0, min(waits)) if waits else None

    def _serve(self, descriptor: int, read: Callable[[], float | None]) -> None:
        pause = read()
        if pause != 0.0:
            self._selector.unregister(descriptor)
        if pause:
            self._paused.append((time.monotonic() + pause, descriptor, read))


def _continues(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except OSError:
        return True  # a process vanished while it was examined


def _printable(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return UNPRINTED.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
