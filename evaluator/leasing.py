"""Who may use a device: timing has it alone, verification and builds that would disturb it share it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import Literal


class DeviceLease:
    """One holder's claim on a device, across threads and processes of this host (a lock on a shared file)."""

    def __init__(self, device: str) -> None:
        path = Path(tempfile.gettempdir()) / f"kernelwright-{os.getuid()}-{device.replace(':', '')}.lock"
        self.held: Literal["", "shared", "alone"] = ""
        """What this holder has now."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def share(self) -> None:
        """Wait until nobody has the device alone."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)
        self.held = "shared"

    def take(self) -> None:
        """Wait until nobody else has the device."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        self.held = "alone"

    def release(self) -> None:
        """Let others have it; nothing to do once closed."""
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.held = ""

    def hold(self, how: Literal["", "shared", "alone"]) -> None:
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
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
