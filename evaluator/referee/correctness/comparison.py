"""Compares outputs: verified ones with exact values, timed ones with the baseline's.

Both measure the error of a group of elements in norm, as a multiple of its scale (tolerance.py). Verified
outputs are also compared element by element against float64; the thousands of timed ones in norm alone.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Final

import torch

from kernelwright.evaluator.ipc.gradients import OUTPUT
from kernelwright.evaluator.ipc.tensor_layout import unravel
from kernelwright.evaluator.ipc.tensor_tree import leaf_paths
from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.discontinuities import (
    SINGLE_BITS,
    FlippedElements,
    FlipTolerance,
    flipped,
    most_jumping,
    uncommon,
)
from kernelwright.evaluator.referee.correctness.groups import (
    all_finite,
    as_real,
    bulk_rms,
    flat_chunks,
    group_columns,
    grouped,
    relative_error,
    rms,
    set_apart,
)
from kernelwright.evaluator.referee.correctness.limits import (
    COMPARED_FINELY,
    change_limit,
    dtype_limit,
    precision_limit,
)
from kernelwright.evaluator.referee.correctness.op_trace import ReductionTerms
from kernelwright.evaluator.referee.correctness.tolerance import Expected, ExpectedLeaf
from kernelwright.evaluator.referee.reference.effects import AFTERWARDS
from kernelwright.evaluator.schema.evaluation import Mismatch

_NAMED = re.compile(rf"^\['(gradient of .*|.*{AFTERWARDS})'\]$")
_PRECISE_AND_HALF: Final = policy.PRECISE_TYPES | {torch.bfloat16, torch.float16}
COARSE: Final = "all of it is coarser than its type: operands of fewer bits somewhere on the way"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of comparing one call's outputs with the exact ones."""

    error_ratio: float
    """Worst group error over its scale; infinite where NaN or infinity does not match."""
    mismatch: Mismatch | None


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs of one call, and what is expected of them."""

    expected: Expected
    actual: list[torch.Tensor]


@dataclass(frozen=True, slots=True)
class BaselineOutput:
    """One output of several calls as the baseline returned it, and how far a candidate's may be from it."""

    values: torch.Tensor
    """Shape [calls, *shape]."""
    scale: torch.Tensor | None
    """Error scales [calls, groups]; None for whole numbers."""
    limits: torch.Tensor
    """Multiples of its scale, shape [calls]; both processes err."""
    least_share: float = 0.0
    """Least scale of a group, relative to its size."""
    tolerance: FlipTolerance = field(default_factory=FlipTolerance)
    may_overflow: bool = False
    """True where exact values are finite: no candidate is held to what is not."""


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """Result of comparing one output of timed calls with the baseline's."""

    mismatch: str
    """Empty where they agree."""
    flipped: FlippedElements = field(default_factory=FlippedElements)
    """Elements that rounding let flip."""
    beyond: tuple[int, ...] = ()
    """Calls whose errors are larger than their scales allow."""
    differing: tuple[int, ...] = ()
    """Calls in which whole numbers differ for the first time, as where ties are broken the other way."""


def compare(
    expected: Expected,
    actual: list[torch.Tensor],
    *,
    limit: float,
    trial: str,
    overall: float = math.inf,
) -> Comparison:
    """Compare the output tensors of one call; `limit` is a multiple of the error scale.

    It holds for each group, `overall`, in roundoffs, for the whole of an output in single precision. State,
    which comes last, may be missing in `actual`: between calls in a row nobody sees it.
    """
    worst = 0.0
    paths = [_readable(path) for path in leaf_paths(expected.output.tree)[: len(actual)]]
    for index, (path, returned) in enumerate(zip(paths, actual, strict=True)):
        got, leaf = as_real(returned), expected.leaves[index]
        ratio, wrong = _compared(leaf, got, limit)
        if bool(wrong.any()) and leaf.scale is not None:
            expected = expected.settled()
            leaf = expected.leaves[index]
            ratio, wrong = _compared(leaf, got, limit)
        if expected.decide_again and 0 < int(wrong.count_nonzero()) <= most_jumping(wrong.numel()):
            expected = expected.decided_again()
            leaf = expected.leaves[index]
            ratio, wrong = _compared(leaf, got, limit)
        for finer in (_rest_compared, _relatively_compared):
            if trial in COMPARED_FINELY and leaf.scale is not None and not bool(wrong.any()):
                worst = max(worst, ratio)
                ratio, wrong = finer(leaf, got, limit)
        worst = max(worst, ratio)
        if bool(wrong.any()):
            most = limit if leaf.scale is None else dtype_limit(limit, leaf.precision)
            ratios = {"error_ratio": ratio, "limit_ratio": most, "trial": trial}
            return Comparison(worst, _describe(path, leaf.exact, got, wrong).model_copy(update=ratios))
    errors = overall_errors(expected, actual) if math.isfinite(overall) else []
    for index, error in enumerate(errors):
        leaf = expected.leaves[index]
        most = precision_limit(overall, leaf.precision, is_double=expected.is_double)
        if not error <= most:
            return Comparison(worst, _too_coarse(paths[index], leaf, actual[index], (error, most), trial))
    return Comparison(worst, None)


def compare_change(
    expected: Expected,
    actual: list[torch.Tensor],
    near: Outputs,
    *,
    terms: ReductionTerms,
    trial: str,
) -> Mismatch | None:
    """Compare the change of outputs from those for nearby inputs; the reference sums so many terms."""
    paths = [_readable(path) for path in leaf_paths(expected.output.tree)]
    for index, error in enumerate(overall_errors(expected, actual, near)):
        if not error <= (limit := change_limit(terms)):
            return _too_coarse(paths[index], expected.leaves[index], actual[index], (error, limit), trial)
    return None


def overall_errors(
    expected: Expected, actual: list[torch.Tensor], near: Outputs | None = None
) -> list[float]:
    """Error in roundoffs that few groups of each output exceed; 0 where it has eight bits.

    With `near` it is that of the change from those outputs, of 24 bits or more only. Smooth errors, as of
    truncated sums and approximations, cancel there; those of narrow operands and rounded sums do not.
    """
    found = []
    for index, returned in enumerate(actual):
        leaf = expected.leaves[index]
        compared = policy.PRECISE_TYPES if near is not None else _PRECISE_AND_HALF
        if leaf.roundoff is None or leaf.precision not in compared or leaf.jumps is not None:
            found.append(0.0)
            continue
        error = as_real(returned).double() - leaf.exact
        if near is not None:
            error -= as_real(near.actual[index]).double() - near.expected.leaves[index].exact
            error /= math.sqrt(2)
        found.append(bulk_rms(error, leaf.exact) / leaf.roundoff)
    return found


def _too_coarse(
    path: str, leaf: ExpectedLeaf, returned: torch.Tensor, ratios: tuple[float, float], trial: str
) -> Mismatch:
    got = as_real(returned)
    update = {"error_ratio": ratios[0], "limit_ratio": ratios[1], "trial": trial, "pattern": COARSE}
    return _describe(path, leaf.exact, got, got != leaf.exact).model_copy(update=update)


def agrees(expected: Expected, actual: list[torch.Tensor], *, limit: float) -> bool:
    """Return whether `compare` finds no mismatch; a description takes longer than the comparison."""
    return not any(
        bool(_compared(expected.leaves[index], as_real(returned), limit)[1].any())
        for index, returned in enumerate(actual)
    )


def _compared(leaf: ExpectedLeaf, got: torch.Tensor, limit: float) -> tuple[float, torch.Tensor]:
    exact = leaf.exact
    if leaf.scale is None:
        wrong = (got != exact) & (got != leaf.own)
        if leaf.unsettled is not None:
            wrong &= ~leaf.unsettled
        return float("inf") if bool(wrong.any()) else 0.0, wrong
    if leaf.jumps is not None:
        exact = leaf.jumps.nearest(exact, got)
    if leaf.overflowed is not None:
        got = torch.where(leaf.overflowed, exact.to(got.dtype), got)
    most, eps = dtype_limit(limit, leaf.precision), torch.finfo(leaf.precision).eps
    return _floating(exact, leaf.scale, got, most, eps=eps)


def _rest_compared(leaf: ExpectedLeaf, got: torch.Tensor, limit: float) -> tuple[float, torch.Tensor]:
    """Compare what is left without what stands out, in small groups: the size of others would excuse it."""
    rest, exact = leaf.rest, leaf.exact if leaf.jumps is None else leaf.jumps.nearest(leaf.exact, got)
    if rest is None:
        return 0.0, torch.zeros_like(exact, dtype=torch.bool)
    if leaf.overflowed is not None:
        got = torch.where(leaf.overflowed, exact.to(got.dtype), got)
    exact, got = (set_apart(values, leaf.exact, rest.below) for values in (exact, got))
    most, eps = dtype_limit(limit, rest.precision) * policy.REST_FACTOR, torch.finfo(rest.precision).eps
    ratio, wrong = _floating(exact, rest.scale, got, most, eps=eps)
    return ratio / policy.REST_FACTOR, wrong.view_as(leaf.exact)


def _relatively_compared(leaf: ExpectedLeaf, got: torch.Tensor, limit: float) -> tuple[float, torch.Tensor]:
    """Compare the relative errors of most elements: large ones in a group would excuse the others."""
    exact = leaf.exact if leaf.jumps is None else leaf.jumps.nearest(leaf.exact, got)
    unit = policy.REST_FACTOR * (leaf.typical or math.inf)
    most = max(dtype_limit(limit, leaf.precision) * unit, policy.LEAST_RELATIVE_ERROR)
    if (error := relative_error(got, exact) or 0.0) <= most:
        return 0.0, torch.zeros_like(exact, dtype=torch.bool)
    return error / unit, ~((got - exact).abs() <= most * exact.abs())


def _readable(path: str) -> str:
    """A readable name of an output; beside gradients and effects the call's own value has a name too."""
    return _NAMED.sub(r"\1", path).removeprefix(f"[{OUTPUT!r}]")


def _floating(
    exact: torch.Tensor, scale: torch.Tensor, got: torch.Tensor, limit: float, *, eps: float
) -> tuple[float, torch.Tensor]:
    rows, values = grouped(exact), grouped(got)
    step = max(1, policy.CHUNK_ELEMENTS // max(rows.shape[1], 1))
    worst, masks = 0.0, []
    for begin in range(0, rows.shape[0], step):
        part, have = rows[begin : begin + step], values[begin : begin + step].double()
        error = (have - part).abs()
        if all_finite(error):
            stray, size = torch.zeros_like(error, dtype=torch.bool), part.abs()
        else:
            finite = part.isfinite()
            stray = torch.where(finite, ~have.isfinite(), ~_same_nonfinite(part, have))
            error = torch.where(finite & have.isfinite(), error, 0.0)
            size = torch.where(finite, part, 0.0).abs()
        unit = scale[begin : begin + step].unsqueeze(1)
        ratios = rms(error) / unit.squeeze(1)
        # An element far above its group, such as the peak of a softmax row, carries an error of its own size.
        own = eps / 2 * size
        beyond = ~(error <= limit * (policy.PEAK_FACTOR * unit + own))  # NaN counts as wrong
        over = ~(ratios <= limit)
        wrong = stray | beyond | (over.unsqueeze(1) & (error > limit * unit * 0.5))
        wrong |= over.unsqueeze(1) & ~wrong.any(1, keepdim=True)
        worst = max(worst, float(ratios.max()), float("inf") if bool(stray.any()) else 0.0)
        masks.append(wrong)
    mask = torch.cat(masks) if masks else torch.zeros_like(rows, dtype=torch.bool)
    return worst, mask.reshape(exact.shape)


def compare_with_baseline(
    expected: BaselineOutput, actual: torch.Tensor, *, earlier: FlippedElements
) -> BaselineComparison:
    """Compare one output of timed calls; `earlier` flips count towards the tolerance."""
    own, other, scale = as_real(actual), as_real(expected.values), expected.scale
    if scale is None:
        found = FlippedElements(int((own != other).count_nonzero()), uncommon(other))
        share = max(policy.MAX_INDEX_FLIPS, expected.tolerance.share)
        few = min(policy.FEW_INDEX_FLIPS, max(1, policy.FEW_INDEX_SHARE * found.compared))
        if all(each.flipped <= max(few, share * each.compared) for each in (found, earlier + found)):
            differs = (own != other).reshape(len(own), -1).any(1) & (earlier.flipped < few)
            return BaselineComparison("", found, differing=tuple(differs.nonzero().flatten().tolist()))
        return BaselineComparison(f"{found.flipped:,} of {own.numel():,} values differ")
    shape = (own.shape[0], -1, group_columns(own[0]))
    wide = torch.float64 if other.dtype == torch.float64 else torch.float32
    rows, reference = own.reshape(shape).to(wide), other.reshape(shape).to(wide)
    error = torch.linalg.vector_norm(rows - reference, dim=-1)
    size = torch.linalg.vector_norm(reference, dim=-1)
    found = FlippedElements()
    if not bool((error + size).isfinite().all()):
        finite = reference.isfinite()
        if expected.may_overflow and float(finite.float().mean()) >= policy.FINITE_SHARE:
            rows = torch.where(finite, rows, reference)
        strays = torch.where(finite, ~rows.isfinite(), ~_same_nonfinite(reference, rows))
        found = FlippedElements(int(strays.count_nonzero()), rows.numel())
        if bool((strays & rows.isnan()).any()) or not expected.tolerance.allows(found, earlier):
            return BaselineComparison(
                "NaN or infinity where the reference has none, or the other way round",
                found,
                tuple(strays.flatten(1).any(1).nonzero().flatten().tolist()),
            )
        finite &= ~strays
        # Squares of large numbers are finite in double precision only.
        rows, reference = (torch.where(finite, values, 0.0).double() for values in (rows, reference))
        error = torch.linalg.vector_norm(rows - reference, dim=-1)
        size = torch.linalg.vector_norm(reference, dim=-1)
    root = float(shape[-1] ** 0.5)
    information = torch.finfo(other.dtype)
    # Of narrow types a few roundings of the whole output are much: no more than when it was verified.
    least = information.eps / 4 if information.bits < SINGLE_BITS else information.eps
    floor = size / root * max(least, expected.least_share)
    unit = torch.maximum(scale.to(floor), floor).clamp_min(policy.SMALLEST_SCALE)
    if expected.tolerance.together:
        difference = rows - reference
        mask = flipped(difference, unit * expected.limits.to(unit).unsqueeze(-1))
        found = FlippedElements(found.flipped + int(mask.count_nonzero()), rows.numel())
        if expected.tolerance.allows(found, earlier):
            error = torch.linalg.vector_norm(torch.where(mask, 0.0, difference), dim=-1)
    worst = (error / root / unit).amax(-1).cpu()
    beyond = ~(worst <= expected.limits)  # NaN counts as wrong
    if not bool(beyond.any()):
        return BaselineComparison("", found)
    return BaselineComparison(
        f"error {float(worst[beyond].max()):.3g} times the rounding error's scale",
        found,
        tuple(beyond.nonzero().flatten().tolist()),
    )


def _same_nonfinite(expected: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    return (expected.isnan() & got.isnan()) | (expected == got)


def _describe(path: str, exact: torch.Tensor, got: torch.Tensor, wrong: torch.Tensor) -> Mismatch:
    first = _first_places(wrong)
    shape = tuple(exact.shape)
    indices = [unravel(position, shape) for position in first.tolist()]
    return Mismatch(
        output=path,
        trial="",
        wrong=int(wrong.count_nonzero()),
        total=exact.numel(),
        first_indices=tuple(indices),
        expected=tuple(float(v) for v in exact.flatten()[first].cpu()),
        actual=tuple(float(v) for v in got.flatten()[first].cpu()),
        max_abs_error=_largest_error(exact, got, wrong),
        error_ratio=float("nan"),
        limit_ratio=float("nan"),
        pattern=pattern(wrong, exact, got),
    )


def _first_places(wrong: torch.Tensor) -> torch.Tensor:
    """Flat positions of the first wrong elements; a part at a time, as a GPU may refuse to search more."""
    found = wrong.new_empty(0, dtype=torch.int64)
    for number, part in enumerate(flat_chunks(wrong)):
        places = part.nonzero().flatten() + number * policy.CHUNK_ELEMENTS
        found = torch.cat([found, places[: policy.SHOWN_ELEMENTS - len(found)]])
        if len(found) == policy.SHOWN_ELEMENTS:
            break
    return found


def _largest_error(exact: torch.Tensor, got: torch.Tensor, wrong: torch.Tensor) -> float:
    worst = -1.0
    for right, have, mask in zip(flat_chunks(exact), flat_chunks(got), flat_chunks(wrong), strict=True):
        error = (have.double() - right.double()).abs()
        counted = error[mask & error.isfinite()]
        worst = max(worst, float(counted.max())) if counted.numel() else worst
    return worst if worst >= 0 else float("inf")


def pattern(wrong: torch.Tensor, exact: torch.Tensor, got: torch.Tensor) -> str:
    """Describe the wrong places, for people and for feedback."""
    if all(bool((part.double() == 0).all()) for part in flat_chunks(got)):
        return "the output is all zeros"
    if bool(got.isnan().all()) if got.is_floating_point() else False:
        return "every element is NaN, computed or left unwritten: memory for outputs is filled with NaN"
    share = int(wrong.count_nonzero()) / max(wrong.numel(), 1)
    if _transposed(exact, got):
        return "the output is transposed"
    for dimension in range(exact.dim() - 1, -1, -1):
        other = [axis for axis in range(exact.dim()) if axis != dimension]
        lines = (wrong.any(dim=tuple(other)) if other else wrong).nonzero().flatten()
        size = exact.shape[dimension]
        if 0 < lines.numel() < size and int(lines[-1] - lines[0]) + 1 == lines.numel():
            last = f"..{int(lines[-1])}" if lines.numel() > 1 else ""
            return f"only indices {int(lines[0])}{last} of dimension {dimension} (size {size})"
    if share > policy.EVERYTHING_OFF:
        return "everything is off"
    return f"{share:.2%} of the elements, scattered"


def _transposed(exact: torch.Tensor, got: torch.Tensor) -> bool:
    square = exact.dim() > 1 and exact.shape[-1] == exact.shape[-2]
    return square and torch.allclose(got.double(), exact.double().transpose(-1, -2), rtol=1e-3, atol=1e-5)
