"""Numbers about references that this machine remembers, apart for queued calls and for others."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.evaluator.referee.worker.driver_link import DriverLink


@dataclass(frozen=True, slots=True)
class BaselineCache:
    """The facts of one problem and policy, kept by the driver."""

    driver: DriverLink

    def recall(self, name: str, queued: bool) -> float | None:
        """A cached number; None if there is none."""
        stored = self.driver.recall().get(_key(name, queued))
        return stored if isinstance(stored, float) else None

    def lacks(self, name: str) -> bool:
        """True if no cached value exists, queued or not."""
        return all(self.recall(name, queued) is None for queued in (False, True))

    def remember(self, queued: bool, **found: float) -> None:
        """Add numbers to those that are cached."""
        new = {_key(name, queued): value for name, value in found.items()}
        self.driver.remember(self.driver.recall() | new)


def _key(name: str, queued: bool) -> str:
    return f"{name}_queued" if queued else name
