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

    def enter(self, devices: Iterable[str], *, warm: Callable[[str], bool]) -> str:
        """The least busy device, a warm one if it can be; counted as busier until `leave`."""
        with self._changed:
            device = min(devices, key=lambda one: (self._busy[one], not warm(one)))
            self._busy[device] += 1
        return device

    def leave(self, device: str) -> None:
        """An evaluation on a device is over."""
        with self._changed:
            self._busy[device] -= 1
            self._changed.notify_all()

    def wait_for_room(self, device: str, stop: Stop) -> bool:
        """Wait until an evaluation leaves, which gives its memory back; False where nobody else is at work.

        Raises:
            Stopped: `stop` was set.
        """
        with self._changed:
            busy = self._busy[device]
            self._waiting[device] += 1
            try:
                if self._waiting[device] >= busy:
                    return False
                while self._busy[device] >= busy and self._waiting[device] < self._busy[device]:
                    self._changed.wait(_GLANCE_S)
                    if stop.is_set:
                        raise Stopped("the evaluation was stopped; nothing is scored")
            finally:
                self._waiting[device] -= 1
        return True
