"""Other shapes of a problem, which no prompt promises: a correct candidate is tried there, too.

The status is recorded and decides nothing: a kernel may be made for its shapes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice

import torch

from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.comparison import compare
from kernelwright.evaluator.referee.correctness.op_trace import trace_call
from kernelwright.evaluator.referee.correctness.shape_variants import ShapeVariant, versions
from kernelwright.evaluator.referee.correctness.tolerance import expect, limit
from kernelwright.evaluator.referee.correctness.trial_cache import SolvedTrial, Trial
from kernelwright.evaluator.referee.correctness.verification import poison_outputs
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import ModelSpec, construct, lay_out_call
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.evaluation import Status


class OtherShapes:
    """Tries candidates of one problem at sizes they were not asked for."""

    def __init__(self, variant: ShapeVariant, *, call_s: float) -> None:
        """`variant` is the problem at the evaluated shapes; `call_s` bounds a call."""
        self._variant = variant
        self._call_s = call_s
        self._solved: list[tuple[ShapeVariant, Trial]] | None = None

    def try_on(self, worker: WorkerProcess) -> dict[str, Status]:
        """Statuses of a verified candidate at other shapes, by their names; empty where there are none.

        The side may be gone afterwards.
        """
        if self._solved is None:
            self._solved = list(islice(self._solve(), policy.OTHER_SHAPES))
        found: dict[str, Status] = {}
        for number, (variant, trial) in enumerate(self._solved):
            if worker.lost:
                break
            with contextlib.suppress(torch.OutOfMemoryError):
                found[variant.name] = self._status(worker, variant, trial, f"sizes{number}")
        return found

    def _solve(self) -> Iterator[tuple[ShapeVariant, Trial]]:
        for variant in versions(self._variant):
            # What fits alone may not fit beside what a referee holds, or what others do.
            with contextlib.suppress(ProblemError, torch.OutOfMemoryError):
                yield variant, _trial(variant)

    def _status(self, worker: WorkerProcess, variant: ShapeVariant, trial: Trial, name: str) -> Status:
        try:
            construct(variant.context, worker, ModelSpec("ModelNew", name, variant.seed, vary=False))
            buffers = lay_out_call(worker, name, trial.arguments, trial.expected.output)
            poison_outputs(buffers, trial, 0)
            variant.context.device.synchronize()
            buffers.run(name, timeout_s=self._call_s)
        except CandidateFailed as failure:
            return failure.status
        found = compare(trial.expected, buffers.read(), limit=trial.limit, trial=trial.name)
        return Status.PASSED if found.mismatch is None else Status.WRONG_VALUES


def _trial(variant: ShapeVariant) -> Trial:
    reference = variant.context.reference
    model = reference.model(variant.seed)
    trace = trace_call(reference, model, variant.arguments)
    solved = SolvedTrial(
        variant.arguments, expect(reference, model, variant.arguments, variant.context.math, trace)
    )
    bound = limit(variant.context.math, zero_mean=False, terms=trace.terms)
    return Trial(variant.name, bound, lambda: solved)
