"""Numbers about references that this machine remembers, apart for queued calls and for others."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelwright.evaluator.referee.timing import policy
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


@dataclass(frozen=True, slots=True)
class PooledSpreads:
    """Spreads between processes on one kind of device, of all problems, by the length of a call.

    A few processes tell their spread badly (three degrees of freedom); those of many problems tell it well.
    """

    driver: DriverLink
    device: str
    """Its name, with torch's version."""

    def typical(self, queued: bool, call_ms: float) -> float | None:
        """A spread that most problems with such calls do not exceed; None while too few are known."""
        known = sorted(self._known(queued, call_ms))
        if len(known) < policy.POOLED_SPREADS:
            return None
        return known[math.ceil(policy.POOLED_QUANTILE * len(known)) - 1]

    def add(self, queued: bool, call_ms: float, spread: float) -> None:
        """Add the spread that was measured for one problem."""
        spreads = [*self._known(queued, call_ms), spread][-policy.KEPT_SPREADS :]
        self.driver.remember({"spreads": spreads}, self._about(queued, call_ms))

    def _known(self, queued: bool, call_ms: float) -> list[float]:
        stored = self.driver.recall(self._about(queued, call_ms)).get("spreads")
        return [one for one in stored if isinstance(one, float)] if isinstance(stored, list) else []

    def _about(self, queued: bool, call_ms: float) -> str:
        decade = math.floor(math.log10(max(call_ms, policy.SHORTEST_CALL_MS)))
        return f"{_key('process_spreads', queued)}:{decade}:{self.device}"


def _key(name: str, queued: bool) -> str:
    return f"{name}_queued" if queued else name
