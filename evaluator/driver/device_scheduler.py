"""Assigns evaluations to devices: the least busy one is chosen, and where memory is short some wait."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from kernelwright.evaluator.driver import policy
from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.host.hardware import memory_in_use
from kernelwright.evaluator.schema.errors import DeviceFull

T = TypeVar("T")


class DeviceScheduler:
    """Evaluations by device; usable from any thread.

    How many fit at once nobody knows beforehand. One that finds the device full waits outside until another
    has ended, next time until half of the others have; from the first time on no more enter than there was
    room for, and each one that fits raises that number a little.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: Counter[str] = Counter()
        """Evaluations that use a device."""
        self._ended: Counter[str] = Counter()
        """Evaluations that have used it."""
        self._outside: Counter[str] = Counter()
        """Evaluations that wait for others to end: they go before new ones."""
        self._claims: Counter[str] = Counter()
        """Evaluations that want a device for themselves, or have it: no other enters."""
        self._room: defaultdict[str, float] = defaultdict(lambda: math.inf)
        """Evaluations that fit at once, as far as is known."""

    def enter(self, devices: Iterable[str], *, warm: Callable[[str], bool], stop: CancelToken) -> str:
        """The least busy device, a warm one if possible, until `leave`; raises Cancelled by `stop`."""
        with self._changed:
            device = min(devices, key=lambda one: (self._claims[one] > 0, self._busy(one), not warm(one)))
            while self._outside[device] or not self._admits(device):
                self._pause(stop)
            self._inside[device] += 1
        return device

    def leave(self, device: str) -> None:
        """An evaluation on a device is over."""
        with self._changed:
            self._inside[device] -= 1
            self._ended[device] += 1
            self._changed.notify_all()

    def is_shared(self, device: str) -> bool:
        """True where an evaluation on a device is not the only one there."""
        with self._changed:
            return self._busy(device) > 1

    @contextmanager
    def alone(self, device: str, stop: CancelToken) -> Iterator[None]:
        """Be alone on a device, once all others have left it; raises Cancelled by `stop`."""
        with self._changed:
            self._claims[device] += 1
        try:
            self._wait_outside(device, lambda: not self._inside[device], stop)
            yield
        finally:
            with self._changed:
                self._claims[device] -= 1
                self._changed.notify_all()

    def make_fit(
        self,
        device: str,
        attempt: Callable[[bool], T],
        *,
        make_room: Callable[[], bool],
        stop: CancelToken,
    ) -> T:
        """Make an attempt; where the device is full, more beside ever fewer others, and then one alone.

        `attempt` is told if all others were evicted; `make_room` returns if it made any room. Where other
        programs hold the memory, the last attempt is made again once they give it back.

        Raises:
            DeviceFull: there is not enough memory even alone.
            Cancelled: `stop` was set while it waited.
        """
        try:
            return self._fitting(device, attempt)
        except DeviceFull:
            has_room = make_room()
            # A CPU's memory is limited for each process: with nobody else there, the next attempt would end
            # the same. A GPU's may be held by other programs, which the last attempt finds out.
            if device == "cpu" and not (has_room or self.is_shared(device)):
                raise
        share = 1.0
        while has_room or self._wait_for_fewer(device, share, stop):
            with suppress(DeviceFull):
                return self._fitting(device, attempt)
            has_room, share = False, share if has_room else 0.5
        with self.alone(device, stop):
            make_room()
            try:
                return attempt(True)
            except DeviceFull:
                if not self._others_gave_back(device, stop):
                    raise
            return attempt(True)

    def _fitting(self, device: str, attempt: Callable[[bool], T]) -> T:
        made = attempt(False)
        with self._changed:
            self._room[device] += 1 / self._room[device]
        return made

    def _wait_for_fewer(self, device: str, share: float, stop: CancelToken) -> bool:
        """Wait outside until one has ended and few of the others are left; False where there are none."""
        with self._changed:
            others, ended = self._inside[device] - 1, self._ended[device]
            if not others:
                return False
            self._room[device] = min(self._room[device], others)

        def may_enter() -> bool:
            inside = self._inside[device]
            is_less = self._ended[device] > ended and self._admits(device) and inside <= share * others
            return is_less or not inside

        self._wait_outside(device, may_enter, stop)
        return True

    def _wait_outside(self, device: str, may_enter: Callable[[], bool], stop: CancelToken) -> None:
        """Count among those outside until it may enter again."""
        with self._changed:
            self._inside[device] -= 1
            self._outside[device] += 1
            self._changed.notify_all()
            try:
                while not may_enter():
                    self._pause(stop)
            finally:
                self._inside[device] += 1
                self._outside[device] -= 1
                self._changed.notify_all()

    def _others_gave_back(self, device: str, stop: CancelToken) -> bool:
        """Wait while other programs hold a device's memory; False where none do, or none gave any back."""
        used = memory_in_use(device)
        until = time.monotonic() + policy.OTHERS_WAIT_S
        while used >= policy.OTHERS_SHARE and time.monotonic() < until:
            with self._changed:
                self._pause(stop, policy.OTHERS_POLL_S)
            if memory_in_use(device) <= max(policy.OTHERS_SHARE, used / 2):
                return True
        return False

    def _admits(self, device: str) -> bool:
        return not self._claims[device] and self._inside[device] + 1 <= self._room[device]

    def _busy(self, device: str) -> int:
        """Evaluations on a device, and those that wait for its memory."""
        return self._inside[device] + self._outside[device]

    def _pause(self, stop: CancelToken, seconds: float = policy.CANCEL_CHECK_S) -> None:
        self._changed.wait(seconds)
        stop.check()
