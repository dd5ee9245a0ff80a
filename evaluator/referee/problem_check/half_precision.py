"""Evaluates the reference in half precision and finds out if its outputs would pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch

from kernelwright.evaluator.referee.correctness.op_trace import OpTrace
from kernelwright.evaluator.referee.correctness.tolerance import expect, limit
from kernelwright.evaluator.referee.problem_check.trivial_answers import Examiner
from kernelwright.evaluator.referee.reference.input_structure import computable
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.problem_report import ProblemFlaw, Severity

GUESS: Final = "half_precision"
_TYPES: Final = {"cpu": (torch.bfloat16,), "cuda": (torch.bfloat16, torch.float16)}
"""float16 is left out where no hardware speeds it up."""


class HalfPrecisionCheck:
    """Examines one problem under the fp32 policy."""

    def __init__(self, reference: Reference, *, seed: int, trace: OpTrace) -> None:
        """`seed` makes the weights."""
        self._reference = reference
        self._seed = seed
        self._trace = trace
        self.guessable: list[str] = []
        """Types that only a loose tolerance accepts."""

    def of(self, arguments: Arguments, examiner: Examiner) -> Iterator[ProblemFlaw]:
        """Yield a flaw where the reference in half precision passes, unless it computes in that itself."""
        if self._trace.half is not None:
            return
        for dtype in _TYPES[self._reference.device.type]:
            answer = self._answer(arguments, dtype)
            if answer is None:
                continue
            acceptance = examiner.accepts(_like(answer, examiner))
            name = str(dtype).removeprefix("torch.")
            if acceptance.ours and self._passes_centred(arguments, dtype):
                detail = f"the reference in {name}: {acceptance}"
                yield ProblemFlaw(name="half_precision_suffices", severity=Severity.FLAW, detail=detail)
            elif acceptance.loose:
                self.guessable.append(f"{GUESS} {name}")

    def _passes_centred(self, arguments: Arguments, dtype: torch.dtype) -> bool:
        """Return whether it passes on zero-mean inputs too, where the tolerance is tightest."""
        centred = arguments.with_leaves([_centred(leaf) for leaf in arguments.leaves])
        try:
            expected = expect(
                self._reference, self._reference.model(self._seed), centred, "fp32", self._trace
            )
        except ProblemError:
            return True
        if not all(bool(computable(leaf).isfinite().all()) for leaf in expected.output.leaves):
            return True
        examiner = Examiner(expected, limit("fp32", zero_mean=True, terms=self._trace.terms))
        answer = self._answer(centred, dtype)
        return answer is None or examiner.accepts(_like(answer, examiner)).ours

    def _answer(self, arguments: Arguments, dtype: torch.dtype) -> Output | None:
        """The outputs with everything narrowed; None where nothing is wide or it does not run."""
        model = self._reference.model(self._seed)
        tensors = [*arguments.leaves, *model.parameters(), *model.buffers()]
        if not any(tensor.dtype in (torch.float32, torch.float64) for tensor in tensors):
            return None
        narrow = [leaf.to(dtype) if leaf.is_floating_point() else leaf for leaf in arguments.leaves]
        try:
            return self._reference.call(model.to(dtype), arguments.with_leaves(narrow))
        except ProblemError:
            return None


def _like(answer: Output, examiner: Examiner) -> list[torch.Tensor]:
    return [a.to(b.dtype) for a, b in zip(answer.leaves, examiner.leaves, strict=False)]


def _centred(leaf: torch.Tensor) -> torch.Tensor:
    """Without its mean, where it has one and is no mask; of eight bits it would be another's."""
    if not leaf.is_floating_point() or leaf.element_size() == 1:
        return leaf
    if bool(((leaf == 0) | (leaf == 1) | leaf.isinf()).all()):
        return leaf
    return leaf - leaf.mean()
