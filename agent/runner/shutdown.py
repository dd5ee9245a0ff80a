"""Ends a run's process: handles signals, writes the last line and summarizes the run."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernelwright.agent.archive import RunLog
from kernelwright.agent.records.attempt_log import RunEnd, RunFinished
from kernelwright.agent.records.provenance import now
from kernelwright.agent.runner.events import RunSummary
from kernelwright.agent.runner.plan import budget_of


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Failures of one process."""

    replies: int = 0
    """Questions without a reply."""
    evaluations: int = 0
    """Replies that could not be evaluated."""
    to_come: int = 0
    """Questions whose replies other processes collect."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Problem id to the reason it was skipped."""


def close_run(log: RunLog, end: RunEnd, reason: str, trouble: RunFailure) -> RunSummary:
    """Write a run's last line and summarize its log.

    Raises:
        OSError: the log cannot be written.
    """
    log.append(RunFinished(at=now(), end=end, reason=reason))
    index, spent = log.index, log.index.spent()
    return RunSummary(
        run_id=log.run,
        end=end,
        reason=reason,
        attempts=len(index.attempts),
        evaluated=sum(seen.evaluation is not None for seen in index.attempts.values()),
        passed=sum(seen.passed for seen in index.attempts.values()),
        kept=sum(seen.kept for seen in index.attempts.values()),
        provider_failures=trouble.replies,
        evaluator_failures=trouble.evaluations,
        to_come=trouble.to_come,
        skipped=dict(trouble.skipped),
        cost_usd=spent.cost_usd,
        unpriced=index.unpriced,
        budget=budget_of(log),
        remembered=index.remembered,
        usage=index.usage(),
        seconds=spent.seconds,
        best=index.best(),
    )


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
