"""Callers in the event loop who wait for something that happens in another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    loop: asyncio.AbstractEventLoop
    event: asyncio.Event


class Waiters:
    """Who waits for what, by name. Usable from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._groups: dict[str, set[_Waiter]] = {}

    @contextmanager
    def waiting_for(self, name: str) -> Iterator[asyncio.Event]:
        """An event that `wake` sets from now on; for use in an event loop."""
        waiter = _Waiter(asyncio.get_running_loop(), asyncio.Event())
        with self._guard:
            self._groups.setdefault(name, set()).add(waiter)
        try:
            yield waiter.event
        finally:
            with self._guard:
                group = self._groups[name]
                group.discard(waiter)
                if not group:
                    del self._groups[name]

    def wake(self, name: str | None = None) -> None:
        """Set the events of everybody who waits for this name, or for any."""
        with self._guard:
            names = self._groups if name is None else [name]
            waiting = [waiter for one in names for waiter in self._groups.get(one, ())]
        for waiter in waiting:
            try:
                waiter.loop.call_soon_threadsafe(waiter.event.set)
            except RuntimeError:
                # The loop is closed: the process is ending and nobody waits any more.
                continue
