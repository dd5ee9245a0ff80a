"""Processes that are stopped together while somebody else times on their device."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

from kernelwright.evaluator.sandbox import SandboxedProcess
from kernelwright.evaluator.schema.errors import MachineError


def can_pause_on(device: str) -> bool:
    """Return whether work that shares a device is paused while others time.

    On a CPU starting processes and building would disturb as well, which only waiting prevents.
    """
    return device != "cpu"


class PausableProcesses:
    """Stops what may use a device, and counts the seconds, which are nobody's fault."""

    def __init__(
        self,
        processes: Callable[[], Iterable[SandboxedProcess]],
        *,
        on_paused: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`processes` names those to stop at that moment; `on_paused` is told each pause in seconds."""
        self._processes = processes
        self._on_paused = on_paused
        self._stopped: list[SandboxedProcess] = []
        self._since: float | None = None
        self._paused_s = 0.0

    @property
    def paused_s(self) -> float:
        """Seconds of all pauses so far."""
        since = self._since
        return self._paused_s + (time.monotonic() - since if since is not None else 0.0)

    def pause(self) -> None:
        """Stop them; one that does not stop in time is still where the device is watched for quiet."""
        if self._since is not None:
            return
        self._since = time.monotonic()
        self._stopped = list(self._processes())
        for process in self._stopped:
            with contextlib.suppress(MachineError):
                process.freeze(by="pause")

    def go_on(self) -> None:
        """Let them run, but for those that their referee stopped as well."""
        if self._since is None:
            return
        for process in self._stopped:
            process.thaw(by="pause")
        seconds, self._since, self._stopped = time.monotonic() - self._since, None, []
        self._paused_s += seconds
        self._on_paused(seconds)

    def wait(self, process: SandboxedProcess, seconds: float) -> None:
        """Wait for a process's end for so many seconds, pauses not counted."""
        while True:
            before = self.paused_s
            if process.wait(seconds) is not None:
                return
            seconds = min(seconds, self.paused_s - before)
            if seconds <= 0:
                return
