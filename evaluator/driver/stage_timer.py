"""Announces the stages of an evaluation and adds up the wall time each takes."""

from __future__ import annotations

import time
from collections.abc import Callable

from kernelwright.evaluator.host import trace
from kernelwright.evaluator.schema.evaluation import Stage

OnStage = Callable[[Stage], None]


class StageTimer:
    """Announces stages and adds up the wall time spent in each."""

    def __init__(self, on_stage: OnStage | None) -> None:
        self._on_stage = on_stage
        self._seconds: dict[str, float] = {}
        self._current: Stage | None = None
        self._since = time.monotonic()
        self._track = trace.new_track("evaluation")

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
            trace.record(self._track, self._current.value, self._since)
        self._since = now
