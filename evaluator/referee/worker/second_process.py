"""A verified candidate in another process, for a second opinion on its time on a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelwright.evaluator.referee.worker.quiet_device import hold_quiet
from kernelwright.evaluator.referee.worker.setup import ModelSpec, ProblemContext, load_model, start
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess


@dataclass(slots=True)
class SecondProcess:
    """A second process of a candidate, which starts on demand; `close` ends it."""

    context: ProblemContext
    first: WorkerProcess
    """The process it was verified in, frozen from then on."""
    source: str
    spec: ModelSpec
    """The model that is timed."""
    total_s: float
    _worker: WorkerProcess | None = field(default=None, init=False)

    def worker(self) -> WorkerProcess:
        """Start a process that holds the model, with the device to itself.

        Raises:
            CandidateFailed: the candidate failed on the way.
        """
        self.first.freeze()
        self.context.driver.release()  # what is starting ahead waits for it
        worker = self._worker = start(self.context, role="timed", compile_s=self.first.compile_s)
        load_again(self.context, worker, self.source, self.spec, self.total_s)
        worker.freeze()
        worker.extend(hold_quiet(self.context))
        worker.thaw()
        return worker

    def close(self) -> None:
        """End the process, if there is one."""
        if self._worker is not None:
            self._worker.close()


def load_again(
    context: ProblemContext, worker: WorkerProcess, source: str, spec: ModelSpec, total_s: float
) -> None:
    """Load a verified candidate in another process, which shares the device and has so many seconds."""
    context.driver.hold(exclusive=False)
    worker.limit(total_s)
    load_model(context, worker, source, spec)
