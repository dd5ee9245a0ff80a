"""Tries outputs that need no computation, such as zeros, or half of its precision, against two tolerances.

What passes here, on one set of inputs and initial weights, is suspected only (`confirmation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import nn

from kernelwright.evaluator.referee.correctness.comparison import agrees
from kernelwright.evaluator.referee.correctness.groups import all_finite
from kernelwright.evaluator.referee.correctness.op_trace import OpTrace
from kernelwright.evaluator.referee.correctness.tolerance import Expected
from kernelwright.evaluator.referee.problem_check import policy
from kernelwright.evaluator.referee.reference.input_structure import computable
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference, copied
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.problem_report import ProblemFlaw, flaw_of

_HALVES: Final = {"cpu": (torch.bfloat16,), "cuda": (torch.bfloat16, torch.float16)}
"""float16 is left out where no hardware speeds it up."""

Guess = Callable[[nn.Module, Arguments, Output], list[torch.Tensor] | None]
"""Makes wrong outputs for a model, its inputs and the correct outputs; None where it cannot."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A flaw, and the wrong outputs that passed."""

    flaw: ProblemFlaw
    guess: Guess
    is_loose: bool = False
    """True where an allclose at `LOOSE` is enough."""
    depends_on_values: bool = False
    """True where more draws may show that something is read after all, such as rows that are chosen."""
    is_bitwise: bool = False
    """True where one bit that changes in these draws is enough to show it."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The comparisons that accept outputs."""

    ours: bool
    """Our own comparison."""
    loose: bool
    """An allclose at `LOOSE`, as other tools use."""

    @property
    def nobody(self) -> bool:
        return not (self.ours or self.loose)

    def __str__(self) -> str:
        match self.ours, self.loose:
            case True, _:
                return "our own comparison accepts it"
            case False, True:
                return f"an allclose at {policy.LOOSE:g} accepts it, our own comparison does not"
            case _:
                return "nobody accepts it"


REFUSED: Final = Acceptance(ours=False, loose=False)


@dataclass(frozen=True, slots=True)
class Examiner:
    """Compares guesses with one expected output."""

    expected: Expected
    limit: float

    @property
    def leaves(self) -> list[torch.Tensor]:
        """The reference's own output tensors."""
        return self.expected.output.leaves

    def accepts(self, guess: list[torch.Tensor]) -> Acceptance:
        """Find out which comparisons accept all outputs."""
        if not alike(guess, self.leaves):
            return REFUSED
        loose = all(_close(a, b) for a, b in zip(guess, self.leaves, strict=True))
        return Acceptance(ours=agrees(self.expected, guess, limit=self.limit), loose=loose)

    def accepts_leaf(self, index: int, guess: torch.Tensor) -> Acceptance:
        """The same for outputs that are correct but for one; other tools look at what is returned alone."""
        found = self.accepts([guess if i == index else leaf for i, leaf in enumerate(self.leaves)])
        return found if index < self.expected.output.returned else replace(found, loose=False)


def of_values(examiner: Examiner, other: Output) -> Iterator[Suspicion]:
    """Suspect outputs that one number can replace; `other` has other inputs and parameters."""
    for index, (leaf, another) in enumerate(zip(examiner.leaves, other.leaves, strict=True)):
        if leaf.numel() == 0 or (index >= other.returned and not leaf.is_floating_point()):
            continue  # a counter that calls change is no answer
        found = _of_leaf(examiner, index, leaf, another)
        if found is not None:
            name, detail, fill = found
            detail = f"output {index}: {detail}" if len(examiner.leaves) > 1 else detail
            yield Suspicion(flaw_of(name, detail), _filled(index, fill), is_loose=index < other.returned)


def _of_leaf(
    examiner: Examiner, index: int, leaf: torch.Tensor, another: torch.Tensor
) -> tuple[str, str, _Fill] | None:
    """Name and detail of a flaw, and what fills the output instead."""
    zeros = examiner.accepts_leaf(index, torch.zeros_like(leaf))
    number = _typical(another)
    constant = examiner.accepts_leaf(index, _constant(number)(leaf))
    exact = not (leaf.is_floating_point() or leaf.is_complex())
    if exact and (zeros.ours or constant.ours):
        number = number if constant.ours else 0.0
        return "constant_output", f"every element is {int(number)}", _constant(number)
    if exact:
        return None
    if not zeros.nobody:
        return "near_zero_output", f"instead of the answer, return zeros: {zeros}", torch.zeros_like
    if not constant.nobody:
        name = "constant_output" if constant.ours else "mean_like_output"
        detail = f"instead of the answer, return {number:.6g} everywhere: {constant}"
        return name, detail, _constant(number)
    if leaf.dim() > 1 and leaf.shape[-1] > 1:
        acceptance = examiner.accepts_leaf(index, _row_means(leaf))
        if not acceptance.nobody:
            return "mean_like_output", f"instead of a row, return its mean: {acceptance}", _row_means
    return None


_Fill = Callable[[torch.Tensor], torch.Tensor]


def _filled(index: int, fill: _Fill) -> Guess:
    """Outputs that are correct but for one."""

    def guess(_model: nn.Module, _arguments: Arguments, output: Output) -> list[torch.Tensor]:
        return [fill(leaf) if place == index else leaf for place, leaf in enumerate(output.leaves)]

    return guess


def _constant(number: float) -> _Fill:
    return lambda leaf: torch.full_like(leaf, number)


def _row_means(leaf: torch.Tensor) -> torch.Tensor:
    return computable(leaf).mean(-1, keepdim=True).to(leaf.dtype).expand_as(leaf)


def of_identity(examiner: Examiner, arguments: Arguments) -> tuple[list[Suspicion], list[str]]:
    """Find out if inputs returned unchanged would pass."""
    acceptances = [
        {
            place: examiner.accepts_leaf(index, given)
            for place, given in enumerate(arguments.leaves)
            if _same_kind(given, leaf)
        }
        for index, leaf in enumerate(examiner.leaves)
    ]
    if all(any(each.ours for each in found.values()) for found in acceptances):
        places = [next(place for place, each in found.items() if each.ours) for found in acceptances]
        detail = "instead of the answer, return the input: our own comparison accepts it"
        return [Suspicion(flaw_of("identity", detail), _inputs_at(places), is_loose=True)], []
    passes = all(not all(each.nobody for each in found.values()) for found in acceptances)
    return [], ["identity"] if passes else []


def _inputs_at(places: list[int]) -> Guess:
    return lambda _model, arguments, _output: [arguments.leaves[place] for place in places]


def of_half_precision(
    reference: Reference, arguments: Arguments, examiner: Examiner, *, seed: int, trace: OpTrace
) -> tuple[list[Suspicion], list[str]]:
    """Find out if the reference would pass in half precision, unless it computes in that itself.

    `seed` makes the weights. Returns also guesses that only a loose tolerance accepts.
    """
    found, guessable = [], []
    for dtype in _HALVES[reference.device.type] if trace.half is None else ():
        answer = _halved(reference, reference.model(seed), arguments, dtype)
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
            answer = _halved(reference, copied(model), arguments, dtype)
        except ProblemError:
            return None
        return _like(answer, output) if answer is not None else None

    return guess


def _halved(
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


def differ(left: Output, right: Output) -> tuple[bool, bool]:
    """Return whether two outputs differ beyond rounding, and whether they do in any bit."""
    if not alike(left.leaves, right.leaves):
        return True, True
    beyond = bits = False
    for a, b in zip(left.leaves, right.leaves, strict=True):
        if _equal(a, b):
            continue
        bits = True
        beyond |= not a.is_floating_point() or _distance(a, b) > max(
            policy.BEYOND_ROUNDING, 16 * torch.finfo(a.dtype).eps
        )
    return beyond, bits


def alike(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    """Return whether two outputs have the same shapes and types."""
    return len(left) == len(right) and all(_same_kind(a, b) for a, b in zip(left, right, strict=True))


def _same_kind(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.shape == right.shape and left.dtype == right.dtype


def _distance(left: torch.Tensor, right: torch.Tensor) -> float:
    """Root mean square of the difference over that of the values; infinite where NaN or infinity moved."""
    a, b = left.double(), right.double()
    if all_finite(a) and all_finite(b):
        return float((a - b).square().mean().sqrt()) / max(float(a.square().mean().sqrt()), 1e-30)
    both = a.isfinite() & b.isfinite()
    if not _equal(torch.where(both, 0.0, a), torch.where(both, 0.0, b)):
        return float("inf")
    size = float(torch.where(both, a, 0.0).square().mean().sqrt())
    return float(torch.where(both, a - b, 0.0).square().mean().sqrt()) / max(size, 1e-30)


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    if not left.is_floating_point():
        return torch.equal(left, right)
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


def _close(guess: torch.Tensor, leaf: torch.Tensor) -> bool:
    if not (leaf.is_floating_point() or leaf.is_complex()):
        return torch.equal(guess, leaf)
    guess, leaf = computable(guess), computable(leaf)
    off = (guess - leaf).abs()
    if all_finite(off):
        return bool((off <= policy.LOOSE + policy.LOOSE * leaf.abs()).all())
    return torch.allclose(guess, leaf, rtol=policy.LOOSE, atol=policy.LOOSE, equal_nan=True)


def _typical(leaf: torch.Tensor) -> float:
    if not leaf.is_floating_point():
        return float(leaf.flatten()[0].real) if leaf.numel() else 0.0
    leaf = computable(leaf)
    finite = leaf[leaf.isfinite()]
    return float(finite.double().mean()) if finite.numel() else 0.0
