"""Verification: the candidate's outputs on secret trials, under two weight draws, against exact values."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import torch

from kernelwright.evaluator.devices.guarded_block import Edge
from kernelwright.evaluator.ipc.contestant_messages import Stain
from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.comparison import Comparison, Outputs, compare, compare_change
from kernelwright.evaluator.referee.correctness.groups import as_real
from kernelwright.evaluator.referee.correctness.guarded_calls import EDGES, TENSORS, GuardedCalls
from kernelwright.evaluator.referee.correctness.input_distributions import (
    AS_GIVEN,
    CONSTANT_INPUTS,
    VARIANTS,
    VARIED,
)
from kernelwright.evaluator.referee.correctness.limits import dtype_limit
from kernelwright.evaluator.referee.correctness.op_trace import OpTrace
from kernelwright.evaluator.referee.correctness.tolerance import Expected, expect
from kernelwright.evaluator.referee.correctness.trial_cache import Draw, Trial
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.reference.effects import AFTERWARDS, equal_outputs, same_values
from kernelwright.evaluator.referee.reference.reference import Reference
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.output_ownership import INTEGERS
from kernelwright.evaluator.referee.worker.setup import (
    VERIFIED,
    CallMemory,
    ProblemContext,
    call_bytes,
    construct,
    lay_out,
)
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Mismatch, Status, Verification

_TOLERATED = (Status.RUNTIME_ERROR, Status.OUT_OF_MEMORY)
"""Failures of a guarded call that say nothing: it takes memory, and a GPU's addresses are unusual there."""
_REFUSES = "right elsewhere, fails where an input's first or last element lies beside unmapped memory"
_GUARDED = "right elsewhere, wrong where memory around tensors, and in new ones, holds NaN"
_UNSTEADY = "right on some repeats, wrong on others"


class Verifier:
    """Verifies one candidate."""

    def __init__(
        self,
        context: ProblemContext,
        worker: WorkerProcess,
        pool: TrialPool,
        *,
        secret: random.Random,
        call_s: float,
        guarded: GuardedCalls,
    ) -> None:
        self._guarded = guarded
        self._context = context
        self._worker = worker
        self._pool = pool
        self._secret = secret
        self._call_s = call_s
        self._trials, self._error_ratio = 0, 0.0
        self._limit = min(trial.limit for trial in pool.draws[0].trials)
        """The least of the trials and types compared, as a multiple of the error scale."""
        self._names: list[str] = []
        """Trials whose outputs were right."""
        self._weights = self._parameters = "none"
        self._repeatable: bool | None = None
        self._guarded_tensors: tuple[str, ...] = ()
        self._outputs: list[torch.Tensor] = []
        """Outputs of the last call that was checked."""
        first = pool.draws[0].trials[0]
        arguments, output = first.arguments, first.expected.output
        affordable = int(context.device.free_bytes() * policy.VERIFY_MEMORY_SHARE) // max(
            1, call_bytes(arguments, output)
        )
        self._slots = max(policy.FEWEST_VERIFY_CALLS, min(policy.VERIFY_CALLS, affordable))
        self._buffers: CallBuffers = lay_out(worker, arguments, output, CallMemory(VERIFIED, self._slots))

    def verify(self, trials: int) -> Verification:
        """Check both weight draws; afterwards the worker holds model `m` of the first draw.

        Raises:
            CandidateFailed: the candidate is wrong, failed, or changed its inputs; carries the record.
        """
        try:
            self._verify(trials)
        except CandidateFailed as failure:
            failure.facts["verification"] = self._record(failure.facts.get("mismatch"))
            raise
        return self._record()

    def _verify(self, trials: int) -> None:
        first, second = self._pool.draws
        base, *others = first.trials
        self._weights = self._construct_and_check(first, base, model="m")
        self._guarded_tensors = self._guard(base)
        # Each of these finds what no other does; the first nearly repeats the base, which one that keeps its
        # outputs has just seen. The order of the rest is secret, and `trials` bounds the varied values alone.
        first_names = ("near_duplicate", CONSTANT_INPUTS, "zero_mean", "nearby", "few_terms", AS_GIVEN)
        chosen = [trial for name in first_names for trial in others if trial.name == name]
        rest = [trial for trial in others if trial.name not in first_names]
        self._secret.shuffle(rest)
        varied = [trial for trial in (*chosen, *rest) if trial.name in VARIANTS]
        left_out = set(varied[max(1, trials - 1) :])
        chosen = [trial for trial in (*chosen, *rest) if trial not in left_out]
        for trial in chosen:
            self._require_correct(trial, "m")
            self._require_change(trial)
        self._repeat(base)
        self._check_row([base, *chosen][: self._slots])
        self._parameters = self._construct_and_check(second, second.trials[0], model="n")
        for trial in second.trials[1:]:
            self._require_correct(trial, "n")

    def guard_again(self, tensors: tuple[str, ...]) -> None:
        """Call with these tensors between guard pages once more: some memory errors come after many calls.

        Raises:
            CandidateFailed: it reads or writes beyond them, or is wrong.
        """
        if tensors:
            self._runs_at_all_edges(self._pool.draws[0].trials[0], tensors)

    def _guard(self, trial: Trial) -> tuple[str, ...]:
        """Call with tensors between guard pages: all, or inputs alone where the others cannot be moved."""
        for tensors in (TENSORS, TENSORS[:1]):
            if self._runs_at_all_edges(trial, tensors):
                return tensors
        return ()

    def _runs_at_all_edges(self, trial: Trial, tensors: tuple[str, ...]) -> bool:
        """Make guarded calls; False where one cannot be made with these tensors."""
        if not all(self._runs_guarded(trial, edge, tensors) for edge in EDGES):
            return False
        if self._guarded.has_more_places(trial) and self._runs_guarded(trial, "inside", tensors):
            self._runs_guarded(trial, "exact", tensors)
        return True

    def _runs_guarded(self, trial: Trial, edge: Edge, tensors: tuple[str, ...]) -> bool:
        """Check one guarded call; False where it cannot be made, or cannot do with such addresses."""
        self._guarded.guard(self._worker, VERIFIED, edge, *tensors)
        try:
            comparison = self._check(trial, "m", guarded=True)
        except CandidateFailed as failure:
            if failure.is_fault:
                failure.facts["edge"] = edge
            elif failure.status in _TOLERATED and not self._worker.lost:
                usual = tensors == TENSORS[:1] and self._context.device.torch_device.type == "cpu"
                if usual and edge in EDGES:
                    raise CandidateFailed(failure.status, f"{_REFUSES}: {failure.detail}") from failure
                return False
            raise
        if comparison.mismatch is not None and edge in EDGES:
            raise self._wrong(comparison.mismatch, Status.WRONG_VALUES, _GUARDED, steady=True)
        return comparison.mismatch is None

    def _record(self, mismatch: Mismatch | None = None) -> Verification:
        backward = self._context.reference.backward
        return Verification(
            trials=self._trials,
            distributions=tuple(dict.fromkeys(self._names)),
            weights=self._weights,
            parameters=self._parameters,
            error_ratio=self._error_ratio if self._trials else None,
            limit_ratio=self._limit,
            bitwise_repeatable=self._repeatable,
            guarded=self._guarded_tensors,
            gradients=backward.names if backward is not None else (),
            effects=self._context.reference.effects.names,
            constant_inputs=self._pool.constant_inputs,
            weight_factor=self._pool.weight_factor,
            mismatch=mismatch,
        )

    def _construct_and_check(self, draw: Draw, trial: Trial, *, model: str) -> str:
        """Construct under the seed, else with the reference's state; wrong only if both are.

        What is wrong under the seed has to be so again, at once and when constructed anew.
        """
        self._construct(draw, model, state=None)
        seeded = self._check(trial, model).mismatch
        if seeded is None:
            return "seed" if any(True for _ in draw.model.parameters()) else "none"
        if self._check(trial, model).mismatch is None:
            raise self._wrong(seeded, Status.NONDETERMINISTIC, _UNSTEADY)
        state, remark = draw.model.state_dict(), ""
        if state:
            try:
                self._construct(draw, model, state=state)
            except CandidateFailed as failure:
                if failure.status is not Status.RUNTIME_ERROR or self._worker.lost:
                    raise
                why = failure.detail[: policy.REMARK_CHARACTERS]
                remark = f"; nor can it be given the reference's weights: {why}"
            else:
                if self._check(trial, model).mismatch is None:
                    return "state_dict"
        if draw.given:
            remark += f"; parameters hold other values here, loaded by name: {', '.join(draw.given)}"
        self._construct(draw, model, state=None)
        self._require_correct(trial, model, remark=remark[: policy.REMARK_CHARACTERS])
        raise self._wrong(seeded, Status.NONDETERMINISTIC, _UNSTEADY)

    def _construct(self, draw: Draw, model: str, *, state: dict[str, torch.Tensor] | None) -> None:
        construct(self._context, self._worker, draw.spec("ModelNew", state=state, model=model))

    def _require_correct(self, trial: Trial, model: str, *, remark: str = "") -> None:
        comparison = self._check(trial, model)
        if comparison.mismatch is None:
            return
        first, steady = self._outputs, True
        for _ in range(policy.RETRIES):
            if self._check(trial, model).mismatch is None:
                raise self._wrong(comparison.mismatch, Status.NONDETERMINISTIC, _UNSTEADY)
            steady = steady and equal_outputs(first, self._outputs)
        raise self._wrong(comparison.mismatch, Status.WRONG_VALUES, "", steady=steady, remark=remark)

    def _require_change(self, trial: Trial) -> None:
        """Compare the change from nearby inputs, if the trial has any."""
        if trial.near is None:
            return
        outputs = self._outputs
        self._require_correct(trial.near, "m")
        near = Outputs(trial.near.expected, self._outputs)
        mismatch = compare_change(
            trial.expected, outputs, near, terms=self._pool.trace.terms, trial=trial.name
        )
        if mismatch is not None:
            raise self._wrong(mismatch, Status.WRONG_VALUES, "", steady=True)

    def _wrong(
        self, mismatch: Mismatch, status: Status, note: str, *, steady: bool = False, remark: str = ""
    ) -> CandidateFailed:
        detail = describe(mismatch) + remark
        return CandidateFailed(
            status, f"{note}; {detail}" if note else detail, mismatch=mismatch, unsteady=not steady
        )

    def _check(self, trial: Trial, model: str, *, index: int = 0, guarded: bool = False) -> Comparison:
        self._write(trial, index)
        try:
            self._run(model, first=index, count=1)
        except CandidateFailed as failure:
            if trial.name in VARIED:  # the candidate may rely on the problem's own draws
                failure.detail += f"; on {_inputs(trial.name)}"
            raise
        self._require_inputs_unchanged(trial, index)
        self._outputs = self._buffers.read(index)
        comparison = trial.compare(self._outputs)
        if not guarded:
            self._buffers.returned.take_back(self._secret)
        self._trials += 1
        if comparison.mismatch is None:
            self._names.append(trial.name)
            self._error_ratio = max(self._error_ratio, comparison.error_ratio)
            types = (as_real(leaf).dtype for leaf in self._outputs)
            limits = (dtype_limit(trial.limit, each) for each in types if each.is_floating_point)
            self._limit = min(self._limit, trial.limit, *limits)
        return comparison

    def _repeat(self, trial: Trial) -> None:
        """Same inputs, other address, twice: record whether the bits are the same."""
        seen = []
        for index in (self._secret.randrange(1, self._slots), 0):
            comparison = self._check(trial, "m", index=index)
            if comparison.mismatch is not None:
                raise self._wrong(
                    comparison.mismatch, Status.NONDETERMINISTIC, "right at first, wrong on a repeat"
                )
            seen.append(self._outputs)
        self._repeatable = equal_outputs(*seen)

    def _check_row(self, trials: list[Trial]) -> None:
        """Make several calls before any output is read: a later call must not change an earlier output."""
        for index, trial in enumerate(trials):
            self._write(trial, index)
        self._run("m", first=0, count=len(trials))
        answers = consecutive(
            self._context.reference, self._pool.draws[0], trials, self._context.math, self._pool.trace
        )
        for index, (trial, expected) in enumerate(zip(trials, answers, strict=True)):
            self._require_inputs_unchanged(trial, index)
            outputs = self._buffers.read(index, last=index == len(trials) - 1)
            comparison = compare(expected, outputs, limit=trial.limit, trial=trial.name)
            if comparison.mismatch is not None:
                raise self._wrong(
                    comparison.mismatch,
                    Status.WRONG_VALUES,
                    f"call {index + 1} of {len(trials)} in a row: right alone, changed or left out there",
                    steady=True,
                )
        self._buffers.returned.take_back(self._secret)

    def _write(self, trial: Trial, index: int) -> None:
        self._buffers.write(trial.arguments.leaves, index)
        poison_outputs(self._buffers, trial, index)
        self._context.device.synchronize()

    def _run(self, model: str, *, first: int, count: int) -> None:
        timeout_s = self._call_s * count
        if self._context.device.torch_device.type == "cuda":
            self._worker.ask(Stain(), timeout_s)
        self._buffers.run(model, first=first, count=count, timeout_s=timeout_s)

    def _require_inputs_unchanged(self, trial: Trial, index: int) -> None:
        """Check the inputs that the reference leaves alone; those it changes are compared as outputs are."""
        places = self._buffers.inputs(index)
        for number, (now, leaf) in enumerate(zip(places, trial.arguments.leaves, strict=True)):
            if number not in self._buffers.changed and not same_values(now, leaf):
                raise CandidateFailed(Status.INPUT_MUTATED, f"input {number} was changed by the call")


def describe(mismatch: Mismatch) -> str:
    """Tell people where outputs are wrong, by how much, and in what pattern."""
    path = mismatch.output
    is_named = path.startswith("gradient of") or path.endswith(AFTERWARDS)
    name = f"the {path}" if is_named else f"output{path}"
    error = f", error {mismatch.error_ratio:.3g} times the reference's own (limit {mismatch.limit_ratio:.3g})"
    return (
        f"{name} on {_inputs(mismatch.trial)}: "
        f"{mismatch.wrong} of {mismatch.total} wrong{error if math.isfinite(mismatch.error_ratio) else ''}; "
        f"{mismatch.pattern}"
    )


def _inputs(name: str) -> str:
    return f"{name} inputs ({VARIED[name]})" if name in VARIED else f"{name} inputs"


def consecutive(
    reference: Reference, draw: Draw, trials: list[Trial], math_policy: str, trace: OpTrace
) -> Iterator[Expected]:
    """Expected outputs of consecutive calls: each finds the buffers as those before it left them."""
    if not trace.keeps_state:
        yield from (trial.expected for trial in trials)
        return
    model = reference.model(draw.seed, vary=draw.vary)
    for trial in trials:
        arguments = trial.arguments
        yield expect(reference, model, arguments, math_policy, trace)
        reference.evolve(model, arguments)


def poison_outputs(buffers: CallBuffers, trial: Trial, index: int) -> None:
    """Poison the memory of the outputs of call `index`, and of the state."""
    output = trial.expected.output
    state = output.leaves[output.returned + len(buffers.changed) :]
    returned = output.leaves[: output.returned]
    for place, exact in zip((*buffers.outputs(index), *buffers.state()), (*returned, *state), strict=True):
        poison(place, exact)


def poison(place: torch.Tensor, exact: torch.Tensor) -> None:
    """Fill an output's memory with NaN, or with a value other than the expected one."""
    if place.is_floating_point() or place.is_complex():
        place.fill_(float("nan"))
    elif place.dtype == torch.bool:
        place.copy_(~exact)
    else:
        # Torch cannot add to unsigned numbers of more than eight bits: their bytes are taken as others.
        signed = INTEGERS[exact.element_size()]
        place.view(signed).copy_(exact.view(signed) + 1)
