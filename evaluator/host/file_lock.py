"""Locks on files that only this user can open: a bounded wait, the holders by name, and claims on devices."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from kernelwright.evaluator.schema.errors import MachineError

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def open_folder() -> int:
    """Open the folder of this user's locks and sockets; returns its descriptor.

    It lies among temporary files, where anybody may have made something of its name first. So it is
    opened without following links, and used only if it is ours and closed to everybody else.

    Raises:
        MachineError: it is another user's, open to others, or no folder.
        OSError: it cannot be made.
    """
    path = Path(tempfile.gettempdir()) / f"kernelwright-{os.geteuid()}"
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    refusal = f"{path} is not a folder that only this user can open, so others could hold our locks: "
    elsewhere = "set TMPDIR to another folder, for all your processes alike"
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(
            f"{refusal}{error.strerror}; remove it, or have its owner or root do so, or {elsewhere}"
        ) from None
    found = os.fstat(folder)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        os.close(folder)
        is_ours = found.st_uid == os.geteuid()
        way_out = "remove it, chmod it to 700" if is_ours else "have its owner or root remove it"
        raise MachineError(
            f"{refusal}user {found.st_uid}, mode {found.st_mode & 0o777:o}; {way_out}, or {elsewhere}"
        )
    return folder


def open_lock(name: str) -> int:
    """Open a lock file of that folder; returns its descriptor, and raises what `open_folder` raises."""
    folder = open_folder()
    try:
        return os.open(name, _FLAGS, 0o600, dir_fd=folder)
    finally:
        os.close(folder)


def lock(descriptor: int, kind: int, *, wait_s: float) -> bool:
    """Take a lock, `LOCK_SH` or `LOCK_EX`, in the order of asking; False when that is not done in `wait_s`.

    After False the descriptor must be closed: the kernel may still grant what was asked for.
    """
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    # A thread waits in the kernel's queue; polling would neither keep the order nor leave cores alone.
    waiter = threading.Thread(target=_wait, args=(descriptor, kind), name="lock-waiter", daemon=True)
    waiter.start()
    waiter.join(wait_s)
    return not waiter.is_alive()


def holders(descriptor: int) -> str:
    """The processes that hold locks on a file, in words; those of another pid namespace cannot be named."""
    wanted = str(os.fstat(descriptor).st_ino)
    found = set()
    for line in Path("/proc/locks").read_text("ascii").splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == wanted and fields[4] != "0":
            found.add(f"process {fields[4]}")
    return ", ".join(sorted(found)) or "a process that cannot be seen from here"


def _wait(descriptor: int, kind: int) -> None:
    with suppress(OSError):  # closed meanwhile
        fcntl.flock(descriptor, kind)


class LockFiles:
    """One claim on a device, shared or alone: its file, and a gate that keeps the order of asking."""

    def __init__(self, device: str, *, wait_s: float) -> None:
        """Claim nothing yet; each claim waits for `wait_s` at most. Raises what `open_folder` raises."""
        self._device = device
        self._wait_s = wait_s
        self._fd, self._gate = self._open()

    def claim(self, kind: int) -> None:
        """Lock the device in the order of asking: who waits to be alone keeps newcomers behind the gate.

        Raises MachineError where nobody gives way in time, or the files are closed.
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
        device = open_lock(f"{name}.lock")
        try:
            return device, open_lock(f"{name}.gate")
        except BaseException:
            os.close(device)
            raise

    def _lock(self, descriptor: int, kind: int) -> None:
        if not lock(descriptor, kind, wait_s=self._wait_s):
            who = holders(self._fd)
            self.close()
            raise MachineError(
                f"waited {self._wait_s:g} s for {self._device}, which {who} of this user holds; "
                "let it end, or end it"
            )
