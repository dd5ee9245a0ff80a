"""Groups of output elements, which share an error scale; root mean squares over them, and relative errors."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import torch

from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.reference.input_structure import computable

_LARGEST_EXPONENT: Final = 1100
"""More than any exponent of float64, of tiny numbers too."""
_SAMPLED: Final = 1 << 16
"""Elements among which those below a gap are surely met."""
_FEWEST_SAMPLED: Final = 1 << 12
"""Such elements that are not zero, at least."""


def group_columns(leaf: torch.Tensor) -> int:
    """Elements of a group: a row of the last dimension, or enough trailing dimensions to reach 32."""
    columns = 1
    for size in reversed(leaf.shape):
        columns *= size
        if columns >= policy.SMALL_GROUP:
            break
    return max(columns, 1)


def grouped(leaf: torch.Tensor) -> torch.Tensor:
    """A leaf as [groups, columns]."""
    return leaf.reshape(-1, group_columns(leaf)) if leaf.numel() else leaf.reshape(0, 1)


def as_real(leaf: torch.Tensor) -> torch.Tensor:
    """A complex leaf as real and imaginary parts in a last dimension of 2; others unchanged."""
    return torch.view_as_real(leaf.resolve_conj()) if leaf.is_complex() else leaf


def rms(values: torch.Tensor) -> torch.Tensor:
    """Root mean square of each group of a float64 [groups, columns] tensor."""
    return values.square().mean(1).sqrt()


def gap_below(exact: torch.Tensor) -> float | None:
    """The size from which elements of a float64 leaf stand out: none is a little smaller, enough far smaller.

    None where there is no such gap.
    """
    if exact.numel() > _SAMPLED and not _may_have_gap(exact):
        return None
    counts = torch.zeros(2 * _LARGEST_EXPONENT, dtype=torch.int64)
    for part in flat_chunks(exact):
        counts += torch.bincount(_exponents(part), minlength=len(counts)).cpu()
    counts[0] = 0
    below = counts.cumsum(0)
    enough = max(policy.FEWEST_BELOW_GAP, policy.SHARE_BELOW_GAP * int(counts.sum()))
    filled = counts.nonzero().flatten().tolist()
    for last, following in pairwise(filled):
        if following - last > policy.GAP_BITS and int(below[last]) >= enough:
            return math.ldexp(0.5, following - _LARGEST_EXPONENT)
    return None


def _may_have_gap(exact: torch.Tensor) -> bool:
    """Look at some elements and the largest: a gap among all is one among these, which are fewer."""
    generator = torch.Generator(exact.device).manual_seed(0)
    places = torch.randint(exact.numel(), (_SAMPLED,), generator=generator, device=exact.device)
    largest = [torch.where(part.isfinite(), part.abs(), 0.0).amax() for part in flat_chunks(exact)]
    found = _exponents(torch.cat([exact.flatten()[places], torch.stack(largest)])).cpu()
    found = found[found > 0]
    filled = sorted(set(found.tolist()))
    return len(found) < _FEWEST_SAMPLED or any(
        following - last > policy.GAP_BITS for last, following in pairwise(filled)
    )


def _exponents(values: torch.Tensor) -> torch.Tensor:
    """Exponents of float64 values, all positive; 0 for what is zero or not finite."""
    exponents = torch.frexp(values).exponent.long() + _LARGEST_EXPONENT
    return torch.where((values != 0) & values.isfinite(), exponents, 0)


def bulk(groups: torch.Tensor, sizes: torch.Tensor) -> float:
    """The value that few of the groups exceed, of those that are not negligible; 0 where there are none."""
    known = groups[sizes > policy.BULK_FLOOR * sizes.amax()] if len(sizes) else groups
    return float(known.kthvalue(math.ceil(policy.BULK_SHARE * len(known))).values) if len(known) else 0.0


def bulk_rms(values: torch.Tensor, exact: torch.Tensor) -> float:
    """The root mean square that few of a leaf's groups exceed, of those that are not negligible."""
    return bulk(*(rms(grouped(finite_or_zero(each)).double()) for each in (values, exact)))


def typical_error(own: torch.Tensor, moved: torch.Tensor, exact: torch.Tensor, *, eps: float) -> float | None:
    """Relative error of most elements of a reference, or of its response to roundings; None of too few.

    `exact` and the perturbed output `moved` are float64, shape as `own`.
    """
    found = [error for values in (own, moved) if (error := relative_error(values, exact)) is not None]
    return max([*found, eps / 2]) if found else None


def relative_error(values: torch.Tensor, exact: torch.Tensor) -> float | None:
    """Relative error that `RELATIVE_QUANTILE` of the elements do not exceed; None of too few.

    Of a large output some elements are drawn, other ones each time: who knew them would compute those alone.
    """
    values, exact = values.flatten(), exact.flatten()
    if exact.numel() > policy.RELATIVE_SAMPLE:
        generator = torch.Generator(exact.device)
        generator.seed()
        places = torch.randint(
            exact.numel(), (policy.RELATIVE_SAMPLE,), generator=generator, device=exact.device
        )
        values, exact = values[places], exact[places]
    values = values.double()
    known = exact.isfinite() & (exact.abs() > policy.SMALLEST_RELATIVE) & values.isfinite()
    errors = (values[known] / exact[known] - 1).abs()
    if len(errors) < policy.FEWEST_RELATIVE:
        return None
    return float(errors.kthvalue(math.ceil(policy.RELATIVE_QUANTILE * len(errors))).values)


def least_scales_by_size(scales: torch.Tensor, sizes: torch.Tensor, *, eps: float) -> torch.Tensor:
    """Least scales of groups: where there are many, roundings and perturbations cancel in some by chance."""
    known = sizes > 0
    if not bool(known.any()):
        return scales
    usual = float((scales[known] / sizes[known]).median())
    return sizes * min(policy.USUAL_SHARE * usual, policy.MOST_USUAL_EPS * eps)


def all_finite(values: torch.Tensor) -> bool:
    """Return whether every element is surely finite; False also where only their sum overflows."""
    return bool(computable(values).sum().isfinite())


def finite_or_zero(values: torch.Tensor) -> torch.Tensor:
    """The values, with zeros in place of what is not finite."""
    # To ask a GPU takes longer than to write: others use it by turns.
    if not values.is_cuda and all_finite(values):
        return values
    return torch.where(values.isfinite(), values, 0.0)


def refined(leaf: torch.Tensor) -> torch.Tensor:
    """A leaf as rows of its smallest groups, where a group spans several rows; others unchanged.

    An output of three forces a particle is one group; here some neighbours are.
    """
    sizes, columns = list(leaf.shape), 1
    while sizes[-1:] == [1]:
        sizes.pop()
    for size in reversed(sizes):
        if columns * size >= policy.SMALL_GROUP:
            fewest = math.ceil(policy.SMALL_GROUP / columns)
            counts = [count for count in range(fewest, min(size, 16 * fewest)) if size % count == 0]
            is_row = columns == 1 and len(sizes) > 1
            return leaf if is_row or not counts else leaf.reshape(-1, columns * counts[0])
        columns *= size
    return leaf


def set_apart(values: torch.Tensor, exact: torch.Tensor, size: float) -> torch.Tensor:
    """The values in small groups, with zeros in place of those whose exact ones have a size or more."""
    return refined(values if math.isinf(size) else torch.where(exact.abs() >= size, 0.0, values))


def flat_chunks(values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Flat pieces of bounded size."""
    return torch.split(values.flatten(), policy.CHUNK_ELEMENTS)
