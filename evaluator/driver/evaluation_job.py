"""The state of one candidate's evaluation in the driver, and the wall time of its stages."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelwright.evaluator.building.builds_ahead import BuildsAhead
from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.driver.policy import MOST_FAILED_BUILDS, OUTPUT_TAIL
from kernelwright.evaluator.host import trace
from kernelwright.evaluator.schema.evaluation import Build, Stage

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


@dataclass(slots=True)
class EvaluationJob:
    """One candidate's evaluation as the driver sees it."""

    on_stage: OnStage = lambda stage: None
    source: str = ""
    deadline: float = float("inf")
    """`time.monotonic()` after which the candidate is ended."""
    builds: list[Build] = field(default_factory=list)
    output_tail: str = ""
    stage: Stage = Stage.LOAD
    timed_out: bool = False
    others_evicted: bool = False
    """Others have made room, so that a lack of device memory is the candidate's own."""
    full_headers: bool = False
    """Libraries are built with torch's own headers from the start."""
    device_s: float = 0.0
    """Seconds it had the device alone."""
    stop: CancelToken = field(default_factory=CancelToken)
    ahead: BuildsAhead | None = None
    """Builds that began before the candidate asked for them."""

    def start_clock(self, total_s: float) -> None:
        """A process of the candidate starts: it has so many seconds, none of which was spent on baselines."""
        self.deadline = time.monotonic() + total_s

    def extend(self, seconds: float) -> None:
        """Leave the candidate so many seconds more: it was kept waiting."""
        self.deadline += seconds

    def enter(self, stage: Stage) -> None:
        """Enter a stage of the evaluation, or go back to it after a build."""
        self.stage = stage
        self.on_stage(stage)

    def record(self, build: Build) -> None:
        """Keep one build more, unless it is one of too many that failed."""
        if build.ok or sum(not known.ok for known in self.builds) < MOST_FAILED_BUILDS:
            self.builds.append(build)

    def note_output(self, text: str) -> None:
        """Keep the end of what the candidate printed."""
        self.output_tail = text[-OUTPUT_TAIL:]

    def note_device_time(self, seconds: float) -> None:
        """Keep how long it had the device alone."""
        self.device_s = seconds

    def has_run_out(self) -> bool:
        """Note that its time is used up; True the first time that is so."""
        if self.timed_out or time.monotonic() < self.deadline:
            return False
        self.timed_out = True
        return True
