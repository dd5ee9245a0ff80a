"""Calls on tensors between guard pages: memory errors of the very program that is timed."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final

from kernelwright.evaluator.devices.guarded_block import Edge
from kernelwright.evaluator.devices.policy import GUARD_ALIGNMENT
from kernelwright.evaluator.ipc.contestant_messages import Guard
from kernelwright.evaluator.ipc.tensor_layout import span_bytes
from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.trial_cache import Trial
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import ProblemContext, lay_out_call, load_model, start
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status

EDGES: Final[tuple[Edge, ...]] = ("end", "beginning")
"""Edges of tensors that touch unmapped pages, one a call."""
TENSORS: Final = ("input", "parameters", "allocations")
"""All tensors that can be placed."""


@dataclass(frozen=True, slots=True)
class GuardedCalls:
    """Guards calls of one candidate, and explains their faults."""

    context: ProblemContext
    host_bytes: int
    """Memory of a contestant."""
    call_s: float
    exact: bool
    """Place ends exactly, too, at any address; false where a candidate needs torch's alignment, or would be
    compiled again."""

    def has_more_places(self, trial: Trial) -> bool:
        """True where an end placed exactly lies elsewhere than one placed as alignment allows."""
        alignment = GUARD_ALIGNMENT[self.context.device.torch_device.type]
        tensors = (*trial.arguments.leaves, *trial.expected.output.leaves)
        return self.exact and any(span_bytes(tensor) % alignment for tensor in tensors)

    def guard(self, worker: WorkerProcess, layout: str, edge: Edge, *tensors: str) -> None:
        """Place tensors of a worker's next run, such as `input 0`, between guard pages."""
        device = self.context.device
        free = device.free_bytes()
        if device.torch_device.type == "cpu":
            free = min(free, self.host_bytes)
        budget = int(free * policy.GUARD_MEMORY_SHARE)
        worker.ask(Guard(layout=layout, edge=edge, tensors=list(tensors), budget=budget), self.call_s)

    def explained(
        self, failure: CandidateFailed, edge: Edge, source: str, pool: TrialPool, limit_s: float
    ) -> CandidateFailed:
        """Turn a fault into a memory error that names the tensor, guarding one a call in a new process."""
        failure.status = Status.MEMORY_ERROR
        try:
            tensor = self._faulting(edge, source, pool, limit_s)
        except CandidateFailed:
            tensor = "tensors"
        side = "before the beginning" if edge == "beginning" else "beyond the end"
        failure.detail = (
            f"it reads or writes {side} of its {tensor}, where nothing is mapped; {failure.detail}"
        )
        return failure

    def _faulting(self, edge: Edge, source: str, pool: TrialPool, limit_s: float) -> str:
        draw = pool.draws[0]
        base = draw.trials[0]
        with contextlib.closing(start(self.context, role="sanitized")) as worker:
            worker.limit(limit_s)
            load_model(self.context, worker, source, draw.spec("ModelNew"))
            buffers = lay_out_call(worker, "guarded", base.arguments, base.expected.output)
            for tensor in (*(f"input {number}" for number in range(len(base.arguments.leaves))), *TENSORS):
                try:
                    self.guard(worker, "guarded", edge, tensor)
                    buffers.run("m", timeout_s=self.call_s)
                except CandidateFailed as failure:
                    if failure.is_fault:
                        return tensor
                    raise
        return "tensors"
