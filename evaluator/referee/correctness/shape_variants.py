"""Other versions of a problem: smaller ones for tools that slow a kernel down a thousandfold, or any.

The problem's own `SHAPES` come first, then its integer constants scaled down by a power of two, odd ones
kept odd. A smaller version counts only if it still is the same problem: it runs, with as many inputs and
outputs of the same ranks and types.

A correct candidate is tried at other shapes, too, which no prompt promises. The status is recorded and
decides nothing: a kernel may be made for its shapes.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import torch

from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.limits import limit
from kernelwright.evaluator.referee.correctness.op_trace import trace_call
from kernelwright.evaluator.referee.correctness.tolerance import expect
from kernelwright.evaluator.referee.correctness.trial_cache import SolvedTrial, Trial
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.correctness.verification import poison_outputs
from kernelwright.evaluator.referee.reference.flop_counter import count_problem_work
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import ModelSpec, ProblemContext, construct, lay_out_call
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.evaluation import Status

_PREFERRED: Final = ("small", "odd")


@dataclass(frozen=True, slots=True)
class ShapeVariant:
    """One version of a problem, ready to be called once."""

    name: str
    context: ProblemContext
    seed: int
    arguments: Arguments
    output: Output

    @property
    def tensors(self) -> list[torch.Tensor]:
        """All inputs and outputs."""
        return [*self.arguments.leaves, *self.output.leaves]

    @property
    def elements(self) -> int:
        """Elements of all inputs and outputs."""
        return sum(map(torch.numel, self.tensors))


def evaluated(context: ProblemContext, pool: TrialPool, name: str) -> ShapeVariant:
    """The version that candidates are evaluated on."""
    base = pool.bases[0]
    return ShapeVariant(name, context, pool.draws[0].seed, base.arguments, base.expected.output)


def smaller(variant: ShapeVariant) -> Iterator[ShapeVariant]:
    """Versions with fewer elements, the most natural first."""
    for made in versions(variant):
        if made.elements < variant.elements:
            yield made


def versions(variant: ShapeVariant) -> Iterator[ShapeVariant]:
    """Versions of other sizes that need little more memory than the evaluated one, likeliest first."""
    usual = variant.context.overrides
    seen = [usual]
    for name, overrides in _variants(variant.context.reference.constants(), usual):
        if overrides and overrides not in seen:
            seen.append(overrides)
            made = _build(variant, name, overrides) if _fits(variant, overrides) else None
            if made is not None and _same_problem(variant, made) and not _same_sizes(variant, made):
                yield made


def _variants(constants: dict[str, Any], usual: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and overrides; `constants` are those in effect, `usual` overrides among them."""
    shapes = constants.get("SHAPES")
    if isinstance(shapes, dict):
        order = [*_PREFERRED, *(name for name in shapes if name not in _PREFERRED)]
        for name in order:
            if isinstance(shapes.get(name), dict):
                yield name, dict(shapes[name])
    for floor in policy.EXTENT_FLOORS:
        smaller_ones = scaled(constants, floor)
        if smaller_ones:
            yield f"scaled down to {floor}", usual | smaller_ones


def _fits(variant: ShapeVariant, overrides: dict[str, Any]) -> bool:
    reference, given = variant.context.reference, variant.context.overrides
    needed, usual = (
        count_problem_work(reference.problem, reference.source, each, dtype=variant.context.dtype)
        for each in (overrides, given)
    )
    if not (needed.complete and usual.complete):
        return not given or overrides.keys() >= given.keys()
    return needed.peak_bytes <= policy.MEMORY_RATIO * usual.peak_bytes + policy.SPARE_BYTES


def scaled(constants: dict[str, Any], floor: int) -> dict[str, Any]:
    """Overrides that shrink the module's integer constants, and lists of integers, down to a floor."""
    overrides = {}
    for name, value in constants.items():
        small = _scaled(value, floor) if not name.startswith("_") else value
        if small != value:
            overrides[name] = small
    return overrides


def _scaled(value: Any, floor: int) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value > policy.SMALLEST_EXTENT:
        return min(value, max(floor, value >> policy.EXTENT_SHIFT) | (value & 1))
    if isinstance(value, (list, tuple)) and value and all(type(item) is int for item in value):
        return type(value)(_scaled(item, floor) for item in value)
    return value


def _build(variant: ShapeVariant, name: str, overrides: dict[str, Any]) -> ShapeVariant | None:
    original, module = variant.context.reference, sys.modules.get("problem")
    try:
        reference = Reference(
            original.problem, original.source, overrides, device=original.device, dtype=variant.context.dtype
        )
        with torch.random.fork_rng(devices=[original.device] if original.device.type == "cuda" else []):
            if original.backward is not None:
                reference.differentiate(variant.seed)
            model = reference.model(variant.seed)
            arguments = reference.inputs(variant.seed)
            output = reference.call(model, arguments)
    except ProblemError:
        return None
    finally:
        if module is not None:
            sys.modules["problem"] = module
    context = replace(
        variant.context, reference=reference, overrides=overrides, keeps_state=output.wrote_state
    )
    return ShapeVariant(name, context, variant.seed, arguments, output)


def _same_sizes(one: ShapeVariant, other: ShapeVariant) -> bool:
    return [leaf.shape for leaf in one.tensors] == [leaf.shape for leaf in other.tensors]


def _same_problem(one: ShapeVariant, other: ShapeVariant) -> bool:
    kept = one.arguments.args == other.arguments.args and one.arguments.kwargs == other.arguments.kwargs
    ours, theirs = ([(leaf.dim(), leaf.dtype) for leaf in each.tensors] for each in (one, other))
    return kept and len(one.output.leaves) == len(other.output.leaves) and ours == theirs


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
        found = trial.compare(buffers.read())
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
