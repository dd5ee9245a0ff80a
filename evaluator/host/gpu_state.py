"""Reads a GPU's clocks, temperature and throttle reasons in the background of an evaluation."""

from __future__ import annotations

import threading

from kernelwright.evaluator.host.hardware import device_state


class GpuStates:
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
