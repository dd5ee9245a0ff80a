"""What the driver knows of one candidate's evaluation while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.schema.evaluation import Build, Stage


@dataclass(slots=True)
class EvaluationJob:
    """One candidate's evaluation as the driver sees it."""

    on_stage: Callable[[Stage], None]
    source: str = ""
    deadline: float = float("inf")
    """`time.monotonic()` after which the candidate is ended."""
    builds: list[Build] = field(default_factory=list)
    output_tail: str = ""
    stage: Stage = Stage.LOAD
    timed_out: bool = False
    alone: bool = False
    """Whether others have made room, so that a lack of device memory is its own."""
    real_headers: bool = False
    """Whether its libraries are built with torch's own headers from the start."""
    device_s: float = 0.0
    """Seconds it had the device alone."""
    stop: CancelToken = field(default_factory=CancelToken)

    def begin_again(self, *, alone: bool = False) -> None:
        """Forget a judgement that came to nothing."""
        self.builds.clear()
        self.timed_out = self.real_headers = False
        self.alone = alone
