"""Processes that are stopped together while somebody else times on their device."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernelwright.evaluator.sandbox import SandboxedProcess
from kernelwright.evaluator.schema.errors import MachineError


def can_pause_on(device: str) -> bool:
    """Return whether work that shares a device is paused while others time.

    On a CPU starting processes and building would disturb as well, which only waiting prevents.
    """
    return device != "cpu"


@dataclass(frozen=True, slots=True)
class _Pauses:
    over_s: float = 0.0
    """Seconds of those that are over."""
    since: float | None = None
    """`time.monotonic()` at the beginning of the one under way."""


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
        self._pauses = _Pauses()
        """Replaced as a whole: other threads read it."""

    @property
    def paused_s(self) -> float:
        """Seconds of all pauses so far."""
        pauses = self._pauses
        return pauses.over_s + (time.monotonic() - pauses.since if pauses.since is not None else 0.0)

    def pause(self) -> None:
        """Stop them; one that does not stop in time is still where the device is watched for quiet."""
        if self._pauses.since is not None:
            return
        self._pauses = _Pauses(self._pauses.over_s, since=time.monotonic())
        self._stopped = list(self._processes())
        for process in self._stopped:
            with contextlib.suppress(MachineError, OSError):
                process.freeze(by="pause")

    def go_on(self) -> None:
        """Let them run, but for those that their referee stopped as well.

        The pause is counted first: its seconds must not be missing when one of them asks at once.
        """
        if self._pauses.since is None:
            return
        seconds = time.monotonic() - self._pauses.since
        self._pauses = _Pauses(self._pauses.over_s + seconds)
        self._on_paused(seconds)
        stopped, self._stopped = self._stopped, []
        for process in stopped:
            with contextlib.suppress(OSError):
                process.thaw(by="pause")

    def wait(self, process: SandboxedProcess, seconds: float) -> None:
        """Wait for a process's end for so many seconds, pauses not counted."""
        while True:
            before = self.paused_s
            if process.wait(seconds) is not None:
                return
            seconds = min(seconds, self.paused_s - before)
            if seconds <= 0:
                return
