"""A lock on a device: timing has it alone, and everything that would disturb timing shares it.

A claim is a lock on a file that all users of the machine see, so that none disturbs another's timings.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from pathlib import Path
from typing import Literal

Hold = Literal["", "shared", "alone"]


class DeviceLock:
    """One holder's claim on a device, across threads and processes of this host."""

    def __init__(self, device: str) -> None:
        """Claim nothing yet.

        Raises:
            OSError: no lock file can be made, not even one of our own.
        """
        name = device.replace(":", "")
        self.held: Hold = ""
        """This holder's claim now."""
        self._fd = _open(f"kernelwright-{name}.lock")
        self._gate = _open(f"kernelwright-{name}.gate")
        self._alone_s = 0.0
        self._since = 0.0

    @property
    def alone_s(self) -> float:
        """Seconds this holder has had the device alone, in all."""
        return self._alone_s + (time.monotonic() - self._since if self.held == "alone" else 0.0)

    def share(self) -> None:
        """Wait until nobody has the device alone or has waited longer for that."""
        if self.held == "":
            self._pass(fcntl.LOCK_SH)
        elif self.held == "alone":
            self._settle()
            fcntl.flock(self._fd, fcntl.LOCK_SH)
        self.held = "shared"

    def take(self) -> None:
        """Wait until nobody else has the device."""
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

    def _pass(self, kind: int) -> None:
        """Lock in the order of asking: a holder that waits to be alone keeps newcomers behind the gate."""
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._fd, kind)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def _settle(self) -> None:
        self._alone_s = self.alone_s
        self._since = time.monotonic()


def _open(name: str) -> int:
    """A file to lock, in the folder all users share; where another user bars it, in one of our own.

    Locking needs no right to write, so that nobody can be made to wait by what a file holds or forbids.
    """
    shared = Path(tempfile.gettempdir())
    try:
        return _open_in(shared, name)
    except OSError:
        own = shared / f"kernelwright-{os.getuid()}"
        own.mkdir(mode=0o700, exist_ok=True)
        if own.is_symlink() or own.stat().st_uid != os.getuid():
            own = Path(tempfile.mkdtemp(prefix="kernelwright-", dir=shared))
        return _open_in(own, name)


def _open_in(folder: Path, name: str) -> int:
    path, flags = folder / name, os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDONLY | flags)
    except FileNotFoundError:
        pass
    try:
        made = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | flags, 0o644)
    except FileExistsError:
        return os.open(path, os.O_RDONLY | flags)
    os.fchmod(made, 0o644)
    return made
