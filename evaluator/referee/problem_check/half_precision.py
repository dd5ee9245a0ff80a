"""Evaluates the reference in half precision and finds out if its outputs would pass.

What passes here, on one set of inputs, is suspected only (`confirmation`).
"""

from __future__ import annotations

from typing import Final

import torch
from torch import nn

from kernelwright.evaluator.referee.correctness.op_trace import OpTrace
from kernelwright.evaluator.referee.problem_check.trivial_answers import Examiner, Guess, Suspicion
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference, copied
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.problem_report import flaw_of

_TYPES: Final = {"cpu": (torch.bfloat16,), "cuda": (torch.bfloat16, torch.float16)}
"""float16 is left out where no hardware speeds it up."""


def of_half_precision(
    reference: Reference, arguments: Arguments, examiner: Examiner, *, seed: int, trace: OpTrace
) -> tuple[list[Suspicion], list[str]]:
    """Find out if the reference would pass in half precision, unless it computes in that itself.

    `seed` makes the weights. Returns also guesses that only a loose tolerance accepts.
    """
    found, guessable = [], []
    for dtype in _TYPES[reference.device.type] if trace.half is None else ():
        answer = _answer(reference, reference.model(seed), arguments, dtype)
        if answer is None:
            continue
        acceptance = examiner.accepts(_like(answer, examiner.expected.output))
        name = str(dtype).removeprefix("torch.")
        if acceptance.ours:
            flaw = flaw_of("half_precision_suffices", f"the reference in {name}: {acceptance}")
            found.append(Suspicion(flaw, _narrowed(reference, dtype)))
        elif acceptance.loose:
            guessable.append(f"half_precision {name}")
    return found, guessable


def _narrowed(reference: Reference, dtype: torch.dtype) -> Guess:
    """The outputs of a copy in this type."""

    def guess(model: nn.Module, arguments: Arguments, output: Output) -> list[torch.Tensor] | None:
        try:
            answer = _answer(reference, copied(model), arguments, dtype)
        except ProblemError:
            return None
        return _like(answer, output) if answer is not None else None

    return guess


def _answer(
    reference: Reference, model: nn.Module, arguments: Arguments, dtype: torch.dtype
) -> Output | None:
    """The outputs with everything narrowed; None where nothing is wide or it does not run."""
    tensors = [*arguments.leaves, *model.parameters(), *model.buffers()]
    if not any(tensor.dtype in (torch.float32, torch.float64) for tensor in tensors):
        return None
    narrow = [leaf.to(dtype) if leaf.is_floating_point() else leaf for leaf in arguments.leaves]
    try:
        return reference.call(model.to(dtype), arguments.with_leaves(narrow))
    except ProblemError:
        return None


def _like(answer: Output, other: Output) -> list[torch.Tensor]:
    return [a.to(b.dtype) for a, b in zip(answer.leaves, other.leaves, strict=False)]
