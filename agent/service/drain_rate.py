"""How fast evaluations end, and so when it is worth asking again."""

from __future__ import annotations

import math
from collections import deque
from statistics import fmean
from typing import Final

RECENT: Final = 64
"""Evaluations the estimate looks back on."""
UNKNOWN_S: Final = 5
"""Seconds to wait while none has ended yet."""
SHORTEST_S: Final = 1
LONGEST_S: Final = 300


class DrainRate:
    """Seconds that recent evaluations took, and how many callers were turned away since one ended."""

    def __init__(self, workers: int) -> None:
        self._workers = max(1, workers)
        self._seconds: deque[float] = deque(maxlen=RECENT)
        self._turned_away = 0

    def ended(self, seconds: float) -> None:
        """Note an evaluation that took this long: a place is free."""
        self._seconds.append(seconds)
        self._turned_away = 0

    def retry_after_s(self) -> int:
        """Whole seconds until the caller turned away now may find a place; more for each further one."""
        self._turned_away += 1
        if not self._seconds:
            return UNKNOWN_S
        wait_s = fmean(self._seconds) / self._workers * self._turned_away
        return min(max(math.ceil(wait_s), SHORTEST_S), LONGEST_S)
