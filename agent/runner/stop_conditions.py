"""The reason for which a run stops; checked before anything new begins."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kernelwright.agent.archive import RunLog
from kernelwright.agent.records.attempt_log import RunEnd

_SEVERITY: Final = (RunEnd.BUDGET, RunEnd.BROKEN, RunEnd.INTERRUPTED)


class StopConditions:
    """Set once, or again for a graver reason; never taken back."""

    def __init__(self) -> None:
        self.end: RunEnd | None = None
        self.reason = ""

    def set(self, end: RunEnd, reason: str) -> bool:
        """Stop the run; False when it is stopping already for a reason as grave."""
        if self.end is not None and _SEVERITY.index(end) <= _SEVERITY.index(self.end):
            return False
        self.end, self.reason = end, reason
        return True

    def set_if_full(self, log: RunLog) -> None:
        """Stop when the log found the disk full; what is in flight still fits."""
        if log.is_disk_full:
            self.set_full(log.folder)

    def set_full(self, folder: Path) -> None:
        """Stop because nothing more fits below a folder."""
        self.set(RunEnd.BROKEN, f"disk full below {folder}; free some space and resume")

    @property
    def is_asking_over(self) -> bool:
        """Nothing more may be asked."""
        return self.end is not None

    @property
    def is_evaluation_over(self) -> bool:
        """No further evaluation may begin; replies wait for a resume."""
        return self.end in (RunEnd.BROKEN, RunEnd.INTERRUPTED)
