"""A lock on a device: timing has it alone, and everything that would disturb timing shares it.

On a GPU, work that shares the device is stopped for timing, but a kernel runs on. Under a tool one may take
many seconds, and slows everybody else's. So calls under a tool have a lock of their own beside their share of
the device: one candidate makes them at a time, and who finds that the device does not fall quiet takes that
lock first, which waits for such calls while nobody else has to.

A claim holds among all processes of one user on this host. Other users are not held back: a file that they
could lock, too, would let any of them stop our evaluations.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from typing import Literal

from kernelwright.evaluator.host import trace
from kernelwright.evaluator.host.file_lock import LockFiles
from kernelwright.evaluator.host.policy import DEVICE_WAIT_S
from kernelwright.evaluator.host.shared_claim import Pausable, shared_claim
from kernelwright.evaluator.schema.errors import MachineError

Hold = Literal["", "shared", "alone", "tools"]


class DeviceLock:
    """One holder's claim on a device, across threads and processes of this user."""

    def __init__(
        self, device: str, *, wait_s: float = DEVICE_WAIT_S, pausable: Pausable | None = None
    ) -> None:
        """Claim nothing yet; each claim waits for `wait_s` at most.

        While it shares the device, `pausable` is stopped whenever somebody wants the device alone; without
        it they wait for `release`. Raises what `file_lock.open_folder` raises.
        """
        self.held: Hold = ""
        """This holder's claim now."""
        self._device = device
        self._wait_s = wait_s
        self._pausable = pausable
        self._files = LockFiles(device, wait_s=wait_s)
        self._tools = None if device == "cpu" else LockFiles(f"{device} tools", wait_s=wait_s)
        self._closed = False
        self._alone_s = 0.0
        self._since = 0.0
        self._track = trace.new_track(f"{device} lock")

    @property
    def is_preemptible(self) -> bool:
        """Others that want the device alone do not wait while this shares it: what uses it is stopped."""
        return self._pausable is not None

    @property
    def alone_s(self) -> float:
        """Seconds this holder has had the device alone, in all."""
        return self._alone_s + (time.monotonic() - self._since if self.held == "alone" else 0.0)

    def share(self) -> None:
        """Wait until nobody has the device alone or has waited longer for that.

        Raises:
            MachineError: nobody gave way in time, or the lock is closed.
        """
        if self.held == "shared":
            return
        if self.held == "tools" and self._tools is not None:
            self._tools.release()
        else:
            self.release()
            self._take_share()
        self._become("shared")

    def hold_alone(self, *, after_tools: bool = False) -> None:
        """Wait until nobody else has the device; raises what `share` raises.

        Calls under a tool are stopped as other work is or, with `after_tools`, waited for; who has the device
        alone already keeps it as it is.
        """
        if self.held != "alone":
            self.release()
            with self._releasing_on_failure():
                if after_tools and self._tools is not None:
                    self._tools.claim(fcntl.LOCK_EX)
                self._files.claim(fcntl.LOCK_EX)
            self._become("alone")

    def hold_for_tools(self) -> None:
        """Share the device for calls under a tool, once nobody else makes such calls.

        On a CPU this is sharing the device. Raises what `share` raises.
        """
        if self._tools is None:
            self.share()
        elif self.held != "tools":
            # Timing takes the tools' lock, then waits for the device: to wait for that lock with a share of
            # the device would be a deadlock. A share that is stopped for timing may be kept until then.
            if not (self.held == "shared" and self.is_preemptible):
                self.release()
            with self._releasing_on_failure():
                self._tools.claim(fcntl.LOCK_EX)
                if not self.held:
                    self._take_share()
            self._become("tools")

    @contextlib.contextmanager
    def _releasing_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.release()
            raise

    def _take_share(self) -> None:
        if self._pausable is None:
            self._files.claim(fcntl.LOCK_SH)
        elif self._closed:
            raise MachineError(f"the lock on {self._device} is closed")
        else:
            shared_claim(self._device).join(self._pausable, wait_s=self._wait_s)

    def _become(self, held: Hold) -> None:
        """Note what is held now, and record what was until now."""
        if self.held:
            trace.record(self._track, self.held, self._since)
        self._since = time.monotonic()
        self.held = held

    def release(self) -> None:
        """Let others have it; nothing to do once closed."""
        self._alone_s = self.alone_s
        if self._pausable is not None:
            shared_claim(self._device).leave(self._pausable)
        self._files.release()
        if self._tools is not None:
            self._tools.release()
        self._become("")

    def restore(self, held: Hold) -> None:
        """Go back to what was held before."""
        claims = {"shared": self.share, "alone": self.hold_alone, "tools": self.hold_for_tools}
        claims.get(held, self.release)()

    def close(self) -> None:
        """Release and forget."""
        self.release()
        self._files.close()
        if self._tools is not None:
            self._tools.close()
        self._closed = True
