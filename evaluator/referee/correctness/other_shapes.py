"""Other sizes of a problem, which no prompt promises: is a right candidate right there too?

The answer is recorded and decides nothing: a kernel may be made for its sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch

from kernelwright.evaluator.referee.correctness.comparison import compare
from kernelwright.evaluator.referee.correctness.op_trace import trace_call
from kernelwright.evaluator.referee.correctness.policy import OTHER_SHAPES
from kernelwright.evaluator.referee.correctness.shape_variants import ShapeVariant, evaluated, versions
from kernelwright.evaluator.referee.correctness.tolerance import expect, limit
from kernelwright.evaluator.referee.correctness.trial_cache import SolvedTrial, Trial
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.correctness.verification import poison_outputs
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import ModelSpec, ProblemContext, construct, lay_out_call
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.evaluation import Status


@dataclass(frozen=True, slots=True)
class _Held:
    """One size with its right answer."""

    scene: ShapeVariant
    trial: Trial


class OtherShapes:
    """Tries candidates of one problem at sizes they were not asked for."""

    def __init__(self, ground: ProblemContext, pool: TrialPool, *, name: str, call_s: float) -> None:
        """`name` is what the judged sizes are called; `call_s` bounds a call."""
        self._scene = evaluated(ground, pool, name)
        self._call_s = call_s
        self._held: list[_Held] | None = None

    def try_on(self, side: WorkerProcess) -> dict[str, Status]:
        """What a verified candidate would earn, by the sizes' name; empty where the problem has no others.

        The side may be gone afterwards.
        """
        if self._held is None:
            self._held = list(islice(self._known(), OTHER_SHAPES))
        found: dict[str, Status] = {}
        for number, held in enumerate(self._held):
            if side.lost:
                break
            with contextlib.suppress(torch.OutOfMemoryError):
                found[held.scene.name] = self._earned(side, held, f"sizes{number}")
        return found

    def _known(self) -> Iterator[_Held]:
        for scene in versions(self._scene):
            # What fits alone may not fit beside what a referee holds, or what others do.
            with contextlib.suppress(ProblemError, torch.OutOfMemoryError):
                yield _Held(scene, _trial(scene))

    def _earned(self, side: WorkerProcess, held: _Held, name: str) -> Status:
        try:
            return self._called(side, held, name)
        except CandidateFailed as verdict:
            return verdict.status

    def _called(self, side: WorkerProcess, held: _Held, name: str) -> Status:
        scene, trial = held.scene, held.trial
        construct(scene.ground, side, ModelSpec("ModelNew", name, scene.seed, vary=False))
        buffers = lay_out_call(side, name, trial.arguments, trial.expected.output)
        poison_outputs(buffers, trial, 0)
        scene.ground.device.synchronize()
        buffers.run(name, timeout_s=self._call_s)
        found = compare(trial.expected, buffers.read(), limit=trial.limit, trial=trial.name)
        return Status.PASSED if found.mismatch is None else Status.WRONG_VALUES


def _trial(scene: ShapeVariant) -> Trial:
    reference = scene.ground.reference
    model = reference.model(scene.seed)
    trace = trace_call(reference, model, scene.arguments)
    solved = SolvedTrial(scene.arguments, expect(reference, model, scene.arguments, scene.ground.math, trace))
    bound = limit(scene.ground.math, zero_mean=False, terms=trace.terms)
    return Trial(scene.name, bound, lambda: solved)
