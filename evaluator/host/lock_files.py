"""The two lock files of a device: the device itself, and a gate before it that keeps the order of asking."""

from __future__ import annotations

import fcntl
import os

from kernelwright.evaluator.host import file_lock
from kernelwright.evaluator.schema.errors import MachineError


class LockFiles:
    """One claim on a device's lock files, shared or alone."""

    def __init__(self, device: str, *, wait_s: float) -> None:
        """Claim nothing yet; each claim waits for `wait_s` at most.

        Raises:
            MachineError: the folder of our lock files is not ours alone.
            OSError: no lock file can be made.
        """
        self._device = device
        self._wait_s = wait_s
        self._fd, self._gate = self._open()

    def claim(self, kind: int) -> None:
        """Lock the device in the order of asking: who waits to be alone keeps newcomers behind the gate.

        Raises:
            MachineError: nobody gave way in time, or the files are closed.
        """
        if self._fd < 0:
            raise MachineError(f"the lock on {self._device} is closed")
        if not (os.fstat(self._fd).st_nlink and os.fstat(self._gate).st_nlink):
            # What tidies temporary files took them away; whoever comes now locks new ones.
            self.reopen()
        self._lock(self._gate, fcntl.LOCK_EX)
        try:
            self._lock(self._fd, kind)
        finally:
            if self._gate >= 0:
                fcntl.flock(self._gate, fcntl.LOCK_UN)

    def is_wanted(self) -> bool:
        """Return whether somebody waits at the gate."""
        try:
            fcntl.flock(self._gate, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        return False

    def release(self) -> None:
        """Give the device back; nothing to do once closed."""
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def reopen(self) -> None:
        """Open the files again after a claim that failed."""
        self.close()
        self._fd, self._gate = self._open()

    def close(self) -> None:
        """Release and forget."""
        for descriptor in (self._fd, self._gate):
            if descriptor >= 0:
                os.close(descriptor)
        self._fd = self._gate = -1

    def _open(self) -> tuple[int, int]:
        name = self._device.replace(":", "").replace(" ", "-")
        device = file_lock.open_lock(f"{name}.lock")
        try:
            return device, file_lock.open_lock(f"{name}.gate")
        except BaseException:
            os.close(device)
            raise

    def _lock(self, descriptor: int, kind: int) -> None:
        if not file_lock.lock(descriptor, kind, wait_s=self._wait_s):
            who = file_lock.holders(self._fd)
            self.close()
            raise MachineError(
                f"waited {self._wait_s:g} s for {self._device}, which {who} of this user holds; "
                "let it end, or end it"
            )
