"""Stops a worker's tasks and lets them run, by descriptors that the driver opened: no question each time."""

from __future__ import annotations

import os
import time

from kernelwright.evaluator.ipc.driver_requests import FreezerOpened
from kernelwright.evaluator.referee.worker.policy import FIRST_LOOK_S, FREEZE_S, LONGEST_LOOK_S


class ProcessFreezer:
    """The freezer of one process; it tells who uses it when to ask the driver instead."""

    def __init__(self, opened: FreezerOpened, control: int, state: int) -> None:
        self._stop, self._go, self._stopped = (
            word.encode() for word in (opened.stop, opened.go, opened.stopped)
        )
        self._control, self._state = control, state

    def freeze(self) -> bool:
        """Stop every task and wait until none runs; False where one goes on, or the process has ended."""
        try:
            os.pwrite(self._control, self._stop, 0)
            deadline, pause_s = time.monotonic() + FREEZE_S, FIRST_LOOK_S
            while self._stopped not in os.pread(self._state, 4096, 0):
                if time.monotonic() > deadline:
                    return False
                time.sleep(pause_s)
                pause_s = min(LONGEST_LOOK_S, 2 * pause_s)
        except OSError:
            return False
        return True

    def thaw(self) -> bool:
        """Let its tasks run; False where the process has ended."""
        try:
            os.pwrite(self._control, self._go, 0)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self._control)
        os.close(self._state)
