"""A verified candidate in another process: for a second opinion on how long it takes on a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelwright.evaluator.referee.correctness.trials import Draw
from kernelwright.evaluator.referee.worker.setup import ModelSpec, ProblemContext, load_model, start
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess


@dataclass(slots=True)
class SecondProcess:
    """A second process of a candidate, which begins when it is asked for; `close` ends it."""

    ground: ProblemContext
    first: WorkerProcess
    """The process it was verified in, stopped from then on."""
    source: str
    draw: Draw
    """The weights it is timed with."""
    from_state: bool
    """Whether it takes them from the reference's state; else it draws them under the same seed."""
    total_s: float
    _side: WorkerProcess | None = field(default=None, init=False)

    def side(self) -> WorkerProcess:
        """A process that holds model `m` as the first did, with the device to itself.

        Raises:
            Verdict: the candidate failed on the way.
        """
        driver = self.ground.driver
        self.first.freeze()
        driver.release()  # what is starting ahead waits for it
        side = self._side = start(self.ground, role="timed", compile_s=self.first.compile_s)
        driver.hold(exclusive=False)
        side.limit(self.total_s)
        state = self.draw.model.state_dict() if self.from_state else None
        spec = ModelSpec("ModelNew", "m", self.draw.seed, self.draw.vary, state)
        load_model(self.ground, side, self.source, spec)
        side.extend(driver.hold(exclusive=True))
        return side

    def close(self) -> None:
        """End the process, if there is one."""
        if self._side is not None:
            self._side.close()
