"""A lock on a device: timing has it alone, and everything that would disturb timing shares it.

A claim holds among all processes of one user on this host. Other users are not held back: a file that they
could lock, too, would let any of them stop our evaluations.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import Literal

from kernelwright.evaluator.host import file_lock, trace
from kernelwright.evaluator.host.policy import DEVICE_WAIT_S
from kernelwright.evaluator.schema.errors import MachineError

Hold = Literal["", "shared", "alone"]


class DeviceLock:
    """One holder's claim on a device, across threads and processes of this user."""

    def __init__(self, device: str, *, wait_s: float = DEVICE_WAIT_S) -> None:
        """Claim nothing yet; each claim waits for `wait_s` at most.

        Raises:
            MachineError: the folder of our lock files is not ours alone.
            OSError: no lock file can be made.
        """
        self.held: Hold = ""
        """This holder's claim now."""
        self._device = device
        self._wait_s = wait_s
        self._fd, self._gate = self._open()
        self._alone_s = 0.0
        self._since = 0.0
        self._track = trace.new_track(f"{device} lock")

    @property
    def alone_s(self) -> float:
        """Seconds this holder has had the device alone, in all."""
        return self._alone_s + (time.monotonic() - self._since if self.held == "alone" else 0.0)

    def share(self) -> None:
        """Wait until nobody has the device alone or has waited longer for that.

        Raises:
            MachineError: nobody gave way in time, or the lock is closed.
        """
        if self.held == "":
            self._pass(fcntl.LOCK_SH)
            self._since = time.monotonic()
        elif self.held == "alone":
            self._settle()
            self._lock(self._fd, fcntl.LOCK_SH)
        self.held = "shared"

    def take(self) -> None:
        """Wait until nobody else has the device; raises what `share` raises."""
        if self.held != "alone":
            self.release()
            self._pass(fcntl.LOCK_EX)
            self._since = time.monotonic()
        self.held = "alone"

    def release(self) -> None:
        """Let others have it; nothing to do once closed."""
        self._settle()
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.held = ""

    def hold(self, how: Hold) -> None:
        """Go back to what was held before."""
        match how:
            case "":
                self.release()
            case "shared":
                self.share()
            case "alone":
                self.take()

    def close(self) -> None:
        """Release and forget."""
        self.release()
        for descriptor in (self._fd, self._gate):
            if descriptor >= 0:
                os.close(descriptor)
        self._fd = self._gate = -1

    def _open(self) -> tuple[int, int]:
        name = self._device.replace(":", "")
        return file_lock.open_lock(f"{name}.lock"), file_lock.open_lock(f"{name}.gate")

    def _pass(self, kind: int) -> None:
        """Lock in the order of asking: a holder that waits to be alone keeps newcomers behind the gate."""
        if self._fd < 0:
            raise MachineError(f"the lock on {self._device} is closed")
        if not (os.fstat(self._fd).st_nlink and os.fstat(self._gate).st_nlink):
            # What tidies temporary files took them away; whoever comes now locks new ones.
            self.close()
            self._fd, self._gate = self._open()
        self._lock(self._gate, fcntl.LOCK_EX)
        try:
            self._lock(self._fd, kind)
        finally:
            if self._gate >= 0:
                fcntl.flock(self._gate, fcntl.LOCK_UN)

    def _lock(self, descriptor: int, kind: int) -> None:
        if not file_lock.lock(descriptor, kind, wait_s=self._wait_s):
            who = file_lock.holders(self._fd)
            self.close()
            raise MachineError(
                f"waited {self._wait_s:g} s for {self._device}, which {who} of this user holds; "
                "let it end, or end it"
            )

    def _settle(self) -> None:
        if self.held:
            trace.record(self._track, self.held, self._since)
        self._alone_s = self.alone_s
        self._since = time.monotonic()
