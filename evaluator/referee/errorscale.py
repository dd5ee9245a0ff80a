"""How far from the exact answer an honest computation may be, measured for this problem and these inputs.

The scale of a group of output elements is the largest of three root mean squares: the reference's own error
against float64; the float64 reference's response to inputs and parameters moved by one unit roundoff of the
allowed precision (a randomised first-order condition estimate, after the CESTAC idea of Vignes, 1993); and
half an ulp of the values themselves. Limits are multiples of that scale.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import nn

from evaluator.referee.reference import Arguments, Output, Reference
from evaluator.referee.structure import computable

UNIT_ROUNDOFF: Final = {"fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}

ZERO_MEAN_LIMIT: Final = 32.0
"""Norm-wise limit where terms cancel: honest sequential float32 stays below 7, TF32 starts near 800."""
OTHER_LIMIT: Final = 192.0
"""Norm-wise limit elsewhere: sequential float32 reached 29 for products of 131072 positive terms."""
REDUCED_LIMIT: Final = 16.0
"""Norm-wise limit when the policy itself allows reduced precision."""
_EIGHT_BIT_LIMIT: Final = 4.0
"""Norm-wise limit for outputs of eight bits: 16 roundings of one are half of its value."""
PEAK_FACTOR: Final = 8.0
"""A single element may err this many times the norm-wise limit."""

_SEQUENTIAL: Final = 4.0
_MOST_ZERO_MEAN: Final = 512.0
"""Of terms without products: inputs in half precision start near 950."""
_SMALL_GROUP = 32
_CHUNK_ELEMENTS: Final = 1 << 24
_TIE_DRAWS: Final = 6
_TIE_ROUNDOFF: Final = 2.0**-21
"""How far inputs are moved to see which whole numbers hang on rounding: eight units."""
_MOST_UNSETTLED: Final = 0.01


@dataclass(frozen=True, slots=True)
class Expected:
    """The right answer for one set of inputs, and how much error is honest."""

    output: Output
    """The reference's own output, in the problem's dtypes."""
    exact: list[torch.Tensor]
    """float64 values (floating leaves, complex ones in parts) or the values themselves."""
    scales: list[torch.Tensor | None]
    """Per floating leaf, the error scale of each group, shape [groups]."""
    in_double: bool
    """False where the reference cannot run in float64."""
    unsettled: list[torch.Tensor | None] = field(default_factory=list)
    """Per leaf of whole numbers, where ties or rounding decide: which of two equal values is the first."""


def group_columns(leaf: torch.Tensor) -> int:
    """Elements a group has: a row of the last dimension, or enough trailing dimensions to reach 32."""
    columns = 1
    for size in reversed(leaf.shape):
        columns *= size
        if columns >= _SMALL_GROUP:
            break
    return max(columns, 1)


def grouped(leaf: torch.Tensor) -> torch.Tensor:
    """A leaf as [groups, columns]."""
    return leaf.reshape(-1, group_columns(leaf)) if leaf.numel() else leaf.reshape(0, 1)


def as_real(leaf: torch.Tensor) -> torch.Tensor:
    """A complex leaf as real and imaginary parts in a last dimension of 2; others as they are."""
    return torch.view_as_real(leaf.resolve_conj()) if leaf.is_complex() else leaf


def rms(values: torch.Tensor) -> torch.Tensor:
    """Root mean square of each group of a float64 [groups, columns] tensor."""
    return values.square().mean(1).sqrt()


def expect(reference: Reference, model: nn.Module, arguments: Arguments, math_policy: str) -> Expected:
    """Compute the right answer and its error scales."""
    output = reference.call(model, arguments)
    double = reference.in_double(model, arguments)
    oracle = double or output
    moved = _moved(reference, model, arguments, UNIT_ROUNDOFF[math_policy], in_double=double is not None)
    exact: list[torch.Tensor] = []
    scales: list[torch.Tensor | None] = []
    for index, leaf in enumerate(output.leaves):
        if not (leaf.is_floating_point() or leaf.is_complex()):
            exact.append(oracle.leaves[index])
            scales.append(None)
            continue
        own = as_real(leaf)
        best = as_real(oracle.leaves[index]).double()
        best = best if all_finite(own) else torch.where(computable(own).isfinite(), best, own.double())
        exact.append(best)
        scales.append(_scale(own, best, as_real(moved.leaves[index])))
    unsettled: list[torch.Tensor | None] = [None] * len(exact)
    if None in scales and any(leaf.is_floating_point() for leaf in arguments.leaves):
        unsettled = _unsettled(reference, model, arguments, oracle, in_double=double is not None)
    return Expected(output, exact, scales, double is not None, unsettled)


def _unsettled(
    reference: Reference, model: nn.Module, arguments: Arguments, oracle: Output, *, in_double: bool
) -> list[torch.Tensor | None]:
    """Where whole numbers change when inputs and parameters move by a few roundoffs; None where most do."""
    found: list[torch.Tensor | None] = [None] * len(oracle.leaves)
    for draw in range(_TIE_DRAWS):
        # To and fro by the same: one of the two exchanges what is equal.
        there = _TIE_ROUNDOFF if draw % 2 else -_TIE_ROUNDOFF
        moved = _moved(reference, model, arguments, there, in_double=in_double, draw=1 + draw // 2)
        for index, (leaf, other) in enumerate(zip(oracle.leaves, moved.leaves, strict=True)):
            if not (leaf.is_floating_point() or leaf.is_complex()) and leaf.shape == other.shape:
                changed, before = leaf != other, found[index]
                found[index] = changed if before is None else before | changed
    return [
        mask if mask is not None and mask.numel() and float(mask.float().mean()) <= _MOST_UNSETTLED else None
        for mask in found
    ]


def _scale(own: torch.Tensor, best: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    information = torch.finfo(own.dtype)
    # Each step on the whole of a large output would take its memory again.
    groups = max(1, _CHUNK_ELEMENTS // group_columns(best))
    chunks = zip(*(torch.split(grouped(leaf), groups) for leaf in (own, best, moved)), strict=True)
    looked_at = [_group_scales(*chunk, eps=information.eps) for chunk in chunks]
    scales, squares = (torch.cat(column) for column in zip(*looked_at, strict=True))
    # A row of zeros behind a relu still carries the rounding of what was cut off.
    overall = squares.mean().sqrt() * (information.eps / 16)
    return torch.maximum(scales, overall) + information.tiny


def _group_scales(
    own: torch.Tensor, best: torch.Tensor, moved: torch.Tensor, *, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and mean square of each group, shape [groups]."""
    squares = finite_or_zero(best).square().mean(1)
    errors = [rms(finite_or_zero(other.double() - best)) for other in (own, moved)]
    return torch.stack([*errors, squares.sqrt() * (eps / 4)]).amax(0), squares


def all_finite(values: torch.Tensor) -> bool:
    """Whether every element is surely finite; False also where only their sum is not."""
    return bool(computable(values).sum().isfinite())


def finite_or_zero(values: torch.Tensor) -> torch.Tensor:
    """The values, and zeros in place of what is not finite."""
    return values if all_finite(values) else torch.where(values.isfinite(), values, 0.0)


def _moved(
    reference: Reference,
    model: nn.Module,
    arguments: Arguments,
    roundoff: float,
    *,
    in_double: bool,
    draw: int = 0,
) -> Output:
    """The answer when inputs and parameters are moved by a roundoff of random sign, or by parts of it."""
    generator = torch.Generator(device=reference.device).manual_seed(20_261_121 + draw)

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.element_size() == 1:
            return tensor
        wide = tensor.to(torch.float64 if in_double else tensor.dtype, copy=True)
        for part in torch.split(wide.view(-1), _CHUNK_ELEMENTS) if wide.is_contiguous() else (wide,):
            part.mul_(_factors(part, roundoff, generator, parts=bool(draw)))
        return wide

    moved_model = copy.deepcopy(model).double() if in_double else copy.deepcopy(model)
    with torch.no_grad():
        for parameter in moved_model.parameters():
            parameter.copy_(move(parameter))
    moved_arguments = arguments.with_leaves([move(leaf) for leaf in arguments.leaves])
    result = (
        reference.in_double(moved_model, moved_arguments)
        if in_double
        else reference.call(moved_model, moved_arguments)
    )
    return result or reference.call(model, arguments)


def _factors(like: torch.Tensor, roundoff: float, generator: torch.Generator, *, parts: bool) -> torch.Tensor:
    if parts:
        shares = torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype)
        return shares.mul_(2).sub_(1).mul_(roundoff).add_(1)
    signs = torch.randint(0, 2, like.shape, generator=generator, device=like.device, dtype=torch.int8)
    return signs.to(like.dtype).mul_(2).sub_(1).mul_(roundoff).add_(1)


def bound(limit: float, dtype: torch.dtype) -> float:
    """The limit for outputs of a type: 192 times the error of a bfloat16 reference is a third of a value."""
    bits = torch.finfo(dtype).bits
    if bits < 16:
        return min(limit, _EIGHT_BIT_LIMIT)
    return min(limit, REDUCED_LIMIT) if bits < 32 else limit


def limit(math_policy: str, *, zero_mean: bool, terms: int) -> float:
    """Norm-wise limit as a multiple of the scale.

    Adding `terms` positive numbers one after another errs about the square root of `terms` times as much as
    the reference's blocked sums do, even where the result is then centred, as in a softmax or a norm.
    """
    if math_policy != "fp32":
        return REDUCED_LIMIT
    sequential = _SEQUENTIAL * math.sqrt(terms)
    return (
        min(max(ZERO_MEAN_LIMIT, sequential), _MOST_ZERO_MEAN) if zero_mean else max(OTHER_LIMIT, sequential)
    )
