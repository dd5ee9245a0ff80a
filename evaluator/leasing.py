"""Who may use a device: timing has it alone, verification and builds that would disturb it share it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path


class DeviceLease:
    """One holder's claim on a device, across threads and processes of this host (a lock on a shared file)."""

    def __init__(self, device: str) -> None:
        path = Path(tempfile.gettempdir()) / f"kernelwright-{os.getuid()}-{device.replace(':', '')}.lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def share(self) -> None:
        """Wait until nobody has the device alone."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def take(self) -> None:
        """Wait until nobody else has the device."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let others have it."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release and forget."""
        os.close(self._fd)
