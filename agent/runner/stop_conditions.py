"""The reason a run stops; checked before new work begins."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kernelwright.agent.archive import RunLog
from kernelwright.agent.records.attempt_log import RunEnd

_SEVERITY: Final = (RunEnd.BUDGET, RunEnd.BROKEN, RunEnd.INTERRUPTED)


class StopConditions:
    """Set once, or again for a more severe reason; never reset."""

    def __init__(self) -> None:
        self.end: RunEnd | None = None
        self.reason = ""

    def set(self, end: RunEnd, reason: str) -> bool:
        """Stop the run; False if it is already stopping for a reason as severe."""
        if self.end is not None and _SEVERITY.index(end) <= _SEVERITY.index(self.end):
            return False
        self.end, self.reason = end, reason
        return True

    def set_if_full(self, log: RunLog) -> None:
        """Stop if the log found the disk full; work in flight still fits."""
        if log.is_disk_full:
            self.set_full(log.folder)

    def set_full(self, folder: Path) -> None:
        """Stop because the disk of a folder is full."""
        self.set(RunEnd.BROKEN, f"disk full below {folder}; free some space and resume")

    @property
    def is_asking_over(self) -> bool:
        """True if no further request may be sent."""
        return self.end is not None

    @property
    def is_evaluation_over(self) -> bool:
        """True if no further evaluation may begin; replies wait for a resume."""
        return self.end in (RunEnd.BROKEN, RunEnd.INTERRUPTED)
