"""Assigns evaluations to devices: the least busy one is chosen, and where memory is short some wait."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.driver.policy import CANCEL_CHECK_S
from kernelwright.evaluator.schema.errors import Cancelled, DeviceFull

T = TypeVar("T")


class DeviceScheduler:
    """Evaluations by device; usable from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._claims: Counter[str] = Counter()
        """Evaluations that want a device for themselves, or have it: no other enters."""

    def enter(self, devices: Iterable[str], *, warm: Callable[[str], bool], stop: CancelToken) -> str:
        """The least busy device, a warm one if it can be; counted as busier until `leave`.

        Raises:
            Cancelled: `stop` was set.
        """
        with self._changed:
            device = min(devices, key=lambda one: (self._claims[one] > 0, self._busy[one], not warm(one)))
            while self._claims[device]:
                self._pause(stop)
            self._busy[device] += 1
        return device

    def leave(self, device: str) -> None:
        """An evaluation on a device is over."""
        with self._changed:
            self._busy[device] -= 1
            self._changed.notify_all()

    def is_shared(self, device: str) -> bool:
        """True where an evaluation on a device is not the only one there."""
        with self._changed:
            return self._busy[device] > 1

    @contextmanager
    def alone(self, device: str, stop: CancelToken) -> Iterator[None]:
        """Be the only one on a device, once all others have left it or wait for the same; one at a time.

        Raises:
            Cancelled: `stop` was set while it waited.
        """
        with self._changed:
            self._claims[device] += 1
            self._waiting[device] += 1
        try:
            with self._changed:
                try:
                    while self._busy[device] > self._waiting[device]:
                        self._pause(stop)
                finally:
                    self._waiting[device] -= 1
                    self._changed.notify_all()
            yield
        finally:
            with self._changed:
                self._claims[device] -= 1
                self._changed.notify_all()

    def alone_if_full(
        self,
        device: str,
        attempt: Callable[[bool], T],
        *,
        make_room: Callable[[], bool],
        stop: CancelToken,
    ) -> T:
        """Make an attempt; where the device is full, one more with room made, and then one alone.

        `attempt` is told if all others were evicted; `make_room` returns if it made any room.

        Raises:
            DeviceFull: there is not enough memory even alone.
            Cancelled: `stop` was set while it waited.
        """
        try:
            return attempt(False)
        except DeviceFull:
            has_room = make_room()
            # A CPU's memory is limited for each process: with nobody else there, the next attempt would end
            # the same. A GPU's may be held by other programs, which the last attempt finds out.
            if device == "cpu" and not (has_room or self.is_shared(device)):
                raise
        if has_room:
            with suppress(DeviceFull):
                return attempt(False)
        with self.alone(device, stop):
            make_room()
            return attempt(True)

    def _pause(self, stop: CancelToken) -> None:
        self._changed.wait(CANCEL_CHECK_S)
        if stop.is_set:
            raise Cancelled("the evaluation was stopped; nothing is scored")
