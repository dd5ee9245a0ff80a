"""Which evaluations use a device now: the least busy one is chosen, and where memory is short some wait."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable

from evaluator.errors import Stopped
from evaluator.stopping import Stop

_GLANCE_S = 1.0


class Crowd:
    """Evaluations by device; usable from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._claimed: set[str] = set()
        """Devices that somebody wants for himself: nobody else enters."""

    def enter(self, devices: Iterable[str], *, warm: Callable[[str], bool], stop: Stop) -> str:
        """The least busy device, a warm one if it can be; counted as busier until `leave`.

        Raises:
            Stopped: `stop` was set.
        """
        with self._changed:
            device = min(devices, key=lambda one: (one in self._claimed, self._busy[one], not warm(one)))
            while device in self._claimed:
                self._pause(stop)
            self._busy[device] += 1
        return device

    def leave(self, device: str) -> None:
        """An evaluation on a device is over."""
        with self._changed:
            self._busy[device] -= 1
            self._changed.notify_all()

    def wait_for_room(self, device: str, stop: Stop) -> bool:
        """Wait until all others on a device have left or wait as well; False where there are no others.

        Of several who wait one at a time goes on.

        Raises:
            Stopped: `stop` was set.
        """
        with self._changed:
            if self._busy[device] <= 1:
                return False
            self._waiting[device] += 1
            self._claimed.add(device)
            try:
                while self._busy[device] > self._waiting[device]:
                    self._pause(stop)
            finally:
                self._waiting[device] -= 1
                if not self._waiting[device]:
                    self._claimed.discard(device)
                self._changed.notify_all()
        return True

    def _pause(self, stop: Stop) -> None:
        self._changed.wait(_GLANCE_S)
        if stop.is_set:
            raise Stopped("the evaluation was stopped; nothing is scored")
