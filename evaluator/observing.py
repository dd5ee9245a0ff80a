"""What is noted beside an evaluation: the time each stage takes, and the state of the GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from evaluator.evaluation import Stage
from evaluator.machine import device_state

OnStage = Callable[[Stage], None]


class Stages:
    """Announces stages and adds up the wall time spent in each."""

    def __init__(self, on_stage: OnStage | None) -> None:
        self._on_stage = on_stage
        self._seconds: dict[str, float] = {}
        self._current: Stage | None = None
        self._since = time.monotonic()

    def enter(self, stage: Stage) -> None:
        """Announce the stage before it is entered."""
        self._settle()
        self._current = stage
        if self._on_stage is not None:
            self._on_stage(stage)

    def seconds(self) -> dict[str, float]:
        """Seconds per stage so far."""
        self._settle()
        return {name: round(value, 4) for name, value in self._seconds.items()}

    def _settle(self) -> None:
        now = time.monotonic()
        if self._current is not None:
            spent = self._seconds.get(self._current.value, 0.0) + now - self._since
            self._seconds[self._current.value] = spent
        self._since = now


class DeviceStates:
    """Asks the driver for a GPU's state, in threads: an answer takes up to a second, and nobody waits."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._asked: dict[str, threading.Thread] = {}
        self._found: dict[str, dict[str, str]] = {}

    def note(self, when: str) -> None:
        """Ask now; once for each name."""
        if when not in self._asked:
            self._asked[when] = threading.Thread(target=self._ask, args=(when,), daemon=True)
            self._asked[when].start()

    def all(self) -> dict[str, str]:
        """Everything found, each fact under when it was asked for and its own name."""
        for thread in self._asked.values():
            thread.join()
        return {f"{when} {name}": value for when in self._asked for name, value in self._found[when].items()}

    def _ask(self, when: str) -> None:
        self._found[when] = device_state(self._device)
