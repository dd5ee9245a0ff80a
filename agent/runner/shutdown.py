"""Ends a run's process: the reason it stops, signals, the last line and the summary of the run."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kernelwright.agent.archive import RunLog
from kernelwright.agent.records.attempt_log import RunEnd, RunFinished
from kernelwright.agent.records.provenance import now
from kernelwright.agent.runner.events import Event, RunClosed, RunSummary
from kernelwright.agent.runner.plan import budget_of

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


async def close_run(
    log: RunLog,
    end: RunEnd,
    reason: str,
    emit: Callable[[Event], None],
    **known_here: Any,  # Any: fields of the summary
) -> RunSummary:
    """Write a run's last line; summarize its log and what only this process knows. Raises OSError."""
    await asyncio.to_thread(log.append, RunFinished(at=now(), end=end, reason=reason))
    index, spent = log.index, log.index.spent()
    summary = RunSummary(
        run_id=log.run,
        end=end,
        reason=reason,
        attempts=len(index.attempts),
        evaluated=sum(seen.evaluation is not None for seen in index.attempts.values()),
        passed=sum(seen.passed for seen in index.attempts.values()),
        kept=sum(seen.kept for seen in index.attempts.values()),
        cost_usd=spent.cost_usd,
        unpriced=index.unpriced,
        budget=budget_of(log),
        remembered=index.remembered,
        usage=index.usage(),
        seconds=spent.seconds,
        best=index.best(),
        **known_here,
    )
    emit(RunClosed(summary=summary))
    return summary


@contextmanager
def interrupts(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on the first Ctrl-C, SIGTERM or SIGHUP; raise KeyboardInterrupt on the second.

    SIGHUP stays ignored under `nohup`. Only the main thread receives signals.
    """
    loop = asyncio.get_running_loop()
    asked = False

    def interrupt() -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        stop()

    heeded = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    signals = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if heeded else []))
    try:
        for number in signals:
            loop.add_signal_handler(number, interrupt)
    except (ValueError, RuntimeError):
        yield
        return
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
