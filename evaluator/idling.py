"""Referees that wait for the next candidate of their problem: how many, and who has to go first."""

from __future__ import annotations

import threading
from collections import OrderedDict

from evaluator.refereeing import RefereeHandle


class IdleReferees:
    """Idle referees by problem, policy and device; usable from any thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: OrderedDict[str, list[RefereeHandle]] = OrderedDict()
        self._guard = threading.Lock()
        self._closed = False

    def has(self, key: str) -> bool:
        """Whether one waits under a key."""
        with self._guard:
            return key in self._waiting

    def take(self, key: str) -> RefereeHandle | None:
        """One that waits under a key, or None."""
        with self._guard:
            referee = self._waiting[key].pop() if key in self._waiting else None
            self._tidy()
            return referee

    def keep(self, key: str, referee: RefereeHandle) -> None:
        """Let one wait; the longest unused goes when there are too many."""
        surplus: list[RefereeHandle] = []
        with self._guard:
            self._waiting.setdefault(key, []).append(referee)
            self._waiting.move_to_end(key)
            most = 0 if self._closed else self._limit
            while sum(map(len, self._waiting.values())) > most:
                surplus.append(next(iter(self._waiting.values())).pop(0))
                self._tidy()
        for extra in surplus:
            extra.close()

    def dismiss(self, device: str) -> bool:
        """End those of a device, for the memory they hold there; whether there were any."""
        with self._guard:
            ended = [one for group in self._waiting.values() for one in group if one.device == device]
            for group in self._waiting.values():
                group[:] = [one for one in group if one.device != device]
            self._tidy()
        for referee in ended:
            referee.close()
        return bool(ended)

    def close(self) -> None:
        """End all, and whoever comes back later."""
        with self._guard:
            self._closed = True
            ended = [one for group in self._waiting.values() for one in group]
            self._waiting.clear()
        for referee in ended:
            referee.close()

    def _tidy(self) -> None:
        """Forget keys under which nobody waits any more."""
        for key in [key for key, group in self._waiting.items() if not group]:
            del self._waiting[key]
