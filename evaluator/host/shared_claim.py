"""The claim of all this process's work that shares a device; it is paused while somebody times alone.

Timing never waits for the end of shared work: processes that may use the device are stopped, the claim is
given back, and they go on once it is granted again.
"""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
import threading
import time
from typing import Final, Protocol

from kernelwright.evaluator.host import trace
from kernelwright.evaluator.host.file_lock import LockFiles
from kernelwright.evaluator.host.policy import SHARED_SLICE_S, WANTED_POLL_S
from kernelwright.evaluator.schema.errors import MachineError


class Pausable(Protocol):
    """Work that can be stopped at any time."""

    def pause(self) -> None:
        """Stop all that may use the device."""

    def go_on(self) -> None:
        """Let it run again."""


class SharedClaim:
    """One device's claim, with all in this process that share it; usable from any thread."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._changed = threading.Condition()
        self._members: list[Pausable] = []
        self._files: LockFiles | None = None
        self._is_turning = False
        """The claim is being made or has been given back: nobody joins."""
        self._paused = False
        self._granted = 0.0
        self._track = trace.new_track(f"{device} shared")

    def join(self, member: Pausable, *, wait_s: float) -> None:
        """Share the device: `member` may be paused from here on. Raises MachineError if nobody gives way."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_turning, timeout=wait_s):
                raise MachineError(f"waited {wait_s:g} s to share {self._device} with others of this process")
            if self._members:
                self._members.append(member)
                return
            self._is_turning = True
        files = None
        try:
            files = LockFiles(self._device, wait_s=wait_s)
            files.claim(fcntl.LOCK_SH)
        except BaseException:
            if files is not None:
                files.close()
            self._turned()
            raise
        with self._changed:
            self._files, self._granted = files, time.monotonic()
            self._members.append(member)
        self._turned()
        threading.Thread(
            target=self._give_way, args=(files,), name=f"{self._device}-claim", daemon=True
        ).start()

    def leave(self, member: Pausable) -> None:
        """Share it no longer; what was paused goes on, since it no longer uses the device."""
        with self._changed:
            if member not in self._members:
                return
            self._members.remove(member)
            if self._paused:
                member.go_on()
            elif not self._members:
                self._close()

    def _turned(self) -> None:
        with self._changed:
            self._is_turning = False
            self._changed.notify_all()

    def _close(self) -> None:
        if self._files is not None:
            self._files.close()
            self._files = None

    def _give_way(self, files: LockFiles) -> None:
        """Pause everybody whenever the device is wanted; ends with the claim."""
        while True:
            time.sleep(WANTED_POLL_S)
            with self._changed:
                if self._files is not files:
                    return
                since_s = time.monotonic() - self._granted
                if since_s < SHARED_SLICE_S or not files.is_wanted():
                    continue
                self._is_turning = self._paused = True
                began = time.monotonic()
                for member in self._members:
                    member.pause()
                files.release()
            while not self._claimed_again(files):
                pass
            trace.record(self._track, "paused", began)

    def _claimed_again(self, files: LockFiles) -> bool:
        """Wait for the claim; let those go on who still share it, and give it up where nobody does.

        Where the files cannot be opened, those who share it stay stopped: somebody may be timing.
        """
        try:
            files.claim(fcntl.LOCK_SH)
        except (MachineError, OSError):
            with self._changed:
                if self._members:
                    with contextlib.suppress(MachineError, OSError):
                        files.reopen()
                    self._changed.wait(WANTED_POLL_S)
                    return False
        with self._changed:
            for member in self._members:
                member.go_on()
            self._paused = False
            self._granted = time.monotonic()
            if not self._members:
                self._close()
        self._turned()
        return True


_CLAIMS: Final[dict[tuple[str, str], SharedClaim]] = {}
_GUARD: Final = threading.Lock()


def shared_claim(device: str) -> SharedClaim:
    """This process's claim on a device."""
    with _GUARD:
        return _CLAIMS.setdefault((tempfile.gettempdir(), device), SharedClaim(device))
