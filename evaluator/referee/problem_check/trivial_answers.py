"""Tries outputs that need no computation, such as zeros, against the tolerance and against a loose one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from kernelwright.evaluator.referee.correctness.comparison import agrees
from kernelwright.evaluator.referee.correctness.groups import all_finite
from kernelwright.evaluator.referee.correctness.tolerance import Expected
from kernelwright.evaluator.referee.problem_check.policy import BEYOND_ROUNDING, LOOSE
from kernelwright.evaluator.referee.reference.input_structure import computable
from kernelwright.evaluator.referee.reference.reference import Arguments, Output
from kernelwright.evaluator.schema.problem_report import ProblemFlaw, Severity


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The comparisons that accept outputs."""

    ours: bool
    """Our own comparison."""
    loose: bool
    """An allclose at `LOOSE`, as other tools use."""

    @property
    def nobody(self) -> bool:
        """Neither."""
        return not (self.ours or self.loose)

    def __str__(self) -> str:
        match self.ours, self.loose:
            case True, _:
                return "our own comparison accepts it"
            case False, True:
                return f"an allclose at {LOOSE:g} accepts it, our own comparison does not"
            case _:
                return "nobody accepts it"


class Examiner:
    """Compares guesses with one expected output."""

    def __init__(self, expected: Expected, limit: float) -> None:
        self.expected = expected
        self._limit = limit

    @property
    def leaves(self) -> list[torch.Tensor]:
        """The reference's own output tensors."""
        return self.expected.output.leaves

    def accepts(self, guess: list[torch.Tensor]) -> Acceptance:
        """Find out which comparisons accept all outputs."""
        if not alike(guess, self.leaves):
            return Acceptance(ours=False, loose=False)
        loose = all(_close(a, b) for a, b in zip(guess, self.leaves, strict=True))
        return Acceptance(ours=agrees(self.expected, guess, limit=self._limit), loose=loose)

    def accepts_leaf(self, index: int, guess: torch.Tensor) -> Acceptance:
        """The same for outputs that are correct but for one; other tools look at what is returned alone."""
        found = self.accepts([guess if i == index else leaf for i, leaf in enumerate(self.leaves)])
        return found if index < self.expected.output.returned else replace(found, loose=False)


def of_values(examiner: Examiner, other: Output) -> Iterator[ProblemFlaw]:
    """Flaws of outputs that one number can replace; `other` has other inputs and parameters."""
    for index, (leaf, another) in enumerate(zip(examiner.leaves, other.leaves, strict=True)):
        if leaf.numel() == 0 or (index >= other.returned and not leaf.is_floating_point()):
            continue  # a counter that calls change is no answer
        where = f"output {index}: " if len(examiner.leaves) > 1 else ""
        yield from _of_leaf(examiner, index, leaf, another, where)


def _of_leaf(
    examiner: Examiner, index: int, leaf: torch.Tensor, another: torch.Tensor, where: str
) -> Iterator[ProblemFlaw]:
    zeros = examiner.accepts_leaf(index, torch.zeros_like(leaf))
    number = _typical(another)
    constant = examiner.accepts_leaf(index, torch.full_like(leaf, number))
    exact = not (leaf.is_floating_point() or leaf.is_complex())
    if exact and (zeros.ours or constant.ours):
        yield _flaw("constant_output", f"{where}every element is {int(number)}")
    elif exact:
        return
    elif not zeros.nobody:
        yield _flaw("near_zero_output", f"{where}instead of the answer, return zeros: {zeros}")
    elif not constant.nobody:
        name = "constant_output" if constant.ours else "mean_like_output"
        yield _flaw(name, f"{where}instead of the answer, return {number:.6g} everywhere: {constant}")
    elif leaf.dim() > 1 and leaf.shape[-1] > 1:
        means = computable(leaf).mean(-1, keepdim=True).to(leaf.dtype).expand_as(leaf)
        acceptance = examiner.accepts_leaf(index, means)
        if not acceptance.nobody:
            yield _flaw("mean_like_output", f"{where}instead of a row, return its mean: {acceptance}")


def of_identity(examiner: Examiner, arguments: Arguments) -> tuple[list[ProblemFlaw], list[str]]:
    """Find out if inputs returned unchanged would pass."""
    acceptances = [
        _best([examiner.accepts_leaf(index, given) for given in arguments.leaves if _same_kind(given, leaf)])
        for index, leaf in enumerate(examiner.leaves)
    ]
    if all(acceptance.ours for acceptance in acceptances):
        return [
            _flaw("identity", "instead of the answer, return the input: our own comparison accepts it")
        ], []
    return [], ["identity"] if all(acceptance.ours or acceptance.loose for acceptance in acceptances) else []


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
            BEYOND_ROUNDING, 16 * torch.finfo(a.dtype).eps
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
        return bool((off <= LOOSE + LOOSE * leaf.abs()).all())
    return torch.allclose(guess, leaf, rtol=LOOSE, atol=LOOSE, equal_nan=True)


def _typical(leaf: torch.Tensor) -> float:
    if not leaf.is_floating_point():
        return float(leaf.flatten()[0].real) if leaf.numel() else 0.0
    leaf = computable(leaf)
    finite = leaf[leaf.isfinite()]
    return float(finite.double().mean()) if finite.numel() else 0.0


def _best(acceptances: list[Acceptance]) -> Acceptance:
    return Acceptance(ours=any(b.ours for b in acceptances), loose=any(b.loose for b in acceptances))


def _flaw(name: str, detail: str) -> ProblemFlaw:
    return ProblemFlaw(name=name, severity=Severity.FLAW, detail=detail)
