"""How far from the exact answer an honest computation may be, measured for this problem and these inputs.

The scale of a group of output elements is the largest of three root mean squares: the reference's own error
against float64; the float64 reference's response to inputs and parameters moved by one unit roundoff of the
allowed precision (a randomised first-order condition estimate, after the CESTAC idea of Vignes, 1993); and
half an ulp of the values themselves. Limits are multiples of that scale.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import torch
from torch import nn

from kernelwright.evaluator.referee.reference.input_structure import computable
from kernelwright.evaluator.referee.reference.perturbation import movable, moved
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference

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
_HALVED: Final = 4.0
"""How far its own error is above all else where a reference computes in half precision between wide types."""
_HALF_BITS: Final = 16
_SINGLE_BITS: Final = 32
_SMALL_GROUP = 32
_CHUNK_ELEMENTS: Final = 1 << 24
_TIE_DRAWS: Final = 6
_MORE_TIE_DRAWS: Final = 12
"""Where those changed something: two numbers that are compared may have moved alike in the first few."""
_TIE_ROUNDOFF: Final = 2.0**-21
"""How far inputs are moved to see which whole numbers hang on rounding: eight units."""
_FAR_ROUNDOFF: Final = 2.0**-10
"""Far enough to meet a jump of an answer that seldom has one; more would be mostly what follows smoothly."""
_FAR_DRAWS: Final = 2
MOST_UNSETTLED: Final = 0.01
_JUMP: Final = 100.0
"""How many times the limit an element goes where it jumps on the farthest ways: smoothly it goes far, too."""
_SHORT_JUMP: Final = 4.0
"""The same on ways of a few roundoffs: one number more in a bin is little beside thousands."""
_MOST_FEW: Final = 8
_FEW_SHARE: Final = 1 / 8
"""So many elements of a small output, or such a share, may jump at once: bins of a histogram do in pairs."""


@dataclass(frozen=True, slots=True)
class Values:
    """Values of some elements."""

    places: torch.Tensor
    """Flat."""
    values: torch.Tensor
    """In float64."""


@dataclass(frozen=True, slots=True)
class Discontinuities:
    """Where a floating leaf has several right values, since rounding decides between them.

    As where it was rounded on purpose, or chosen by the nearest of many.
    """

    others: list[Values]
    """What the reference answers to inputs a few roundoffs away, where that is something else."""
    share: float
    """Of the elements, how many have several."""
    most: int
    """Elements of one group that jump together, at most."""


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
    jumps: list[Discontinuities | None] = field(default_factory=list)
    """Per floating leaf, what a decision that hangs on rounding makes of it."""
    halves: list[torch.dtype | None] = field(default_factory=list)
    """Per leaf, the half precision whose roundings on the way are most of its error, where it is wider."""

    def precision(self, index: int) -> torch.dtype:
        """The type whose roundings a floating leaf carries."""
        half = self.halves[index] if self.halves else None
        return half or as_real(self.output.leaves[index]).dtype


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
    roundoff = _roundoff(model, arguments, math_policy)
    other = moved(reference, model, arguments, roundoff, in_double=double is not None)
    exact: list[torch.Tensor] = []
    scales: list[torch.Tensor | None] = []
    halves: list[torch.dtype | None] = []
    for index, leaf in enumerate(output.leaves):
        if not (leaf.is_floating_point() or leaf.is_complex()):
            exact.append(oracle.leaves[index])
            scales.append(None)
            halves.append(None)
            continue
        own = as_real(leaf)
        best = as_real(oracle.leaves[index]).double()
        best = best if all_finite(own) else torch.where(computable(own).isfinite(), best, own.double())
        exact.append(best)
        may_be = torch.finfo(own.dtype).bits > _HALF_BITS and not reference.rounds
        half = reference.half if may_be else None
        scale, is_halved = _scale(own, best, as_real(other.leaves[index]), may_be_halved=half is not None)
        scales.append(scale)
        halves.append(half if is_halved else None)
    found = Expected(output, exact, scales, double is not None, halves=halves)
    if (None in scales or reference.decides) and movable(model, arguments):
        return _with_decisions(found, reference, model, arguments)
    return found


def _roundoff(model: nn.Module, arguments: Arguments, math_policy: str) -> float:
    """What one rounding may change: where an author asked for double precision throughout, less."""
    tensors = (*arguments.leaves, *model.parameters(), *model.buffers())
    kinds = {
        (tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype)
        for tensor in tensors
        if tensor.is_floating_point() or tensor.is_complex()
    }
    # A unit of it would be lost where it is added to one.
    is_double = math_policy == "fp32" and kinds == {torch.float64}
    return torch.finfo(torch.float64).eps if is_double else UNIT_ROUNDOFF[math_policy]


def _with_decisions(
    found: Expected, reference: Reference, model: nn.Module, arguments: Arguments
) -> Expected:
    """The same, and where answers change or jump when inputs and parameters move by a few roundoffs."""
    leaves = enumerate(zip(found.exact, found.scales, strict=True))
    watched = [_Watched(exact, scale, found.precision(index)) for index, (exact, scale) in leaves]

    def answer(roundoff: float, draw: int) -> list[torch.Tensor]:
        return moved(reference, model, arguments, roundoff, in_double=found.in_double, draw=draw).leaves

    for draw in range(_MORE_TIE_DRAWS):
        if draw == _TIE_DRAWS and not any(leaf.has_changed for leaf in watched):
            break
        # To and fro by the same: one of the two exchanges what is equal.
        there = _TIE_ROUNDOFF if draw % 2 else -_TIE_ROUNDOFF
        for leaf, other in zip(watched, answer(there, 1 + draw // 2), strict=True):
            leaf.look(as_real(other))
    if reference.decides:
        _note_jumps(reference, watched, answer)
    return replace(
        found,
        unsettled=[leaf.unsettled() for leaf in watched],
        jumps=[leaf.jumps(reference.together.get(index, 0)) for index, leaf in enumerate(watched)],
    )


def _note_jumps(
    reference: Reference, watched: list[_Watched], answer: Callable[[float, int], list[torch.Tensor]]
) -> None:
    """Note how many elements of an output jump together; none met, one is looked for on longer ways."""
    for index, leaf in enumerate(watched):
        for draw in range(1 + _MORE_TIE_DRAWS, 1 + _MORE_TIE_DRAWS + _FAR_DRAWS):
            if not (leaf.can_jump and max(leaf.most, reference.together.get(index, 0)) == 0):
                break
            way = functools.partial(_one_answer, answer, draw, index)
            leaf.most = _jump_on_the_way(leaf, way)
        if leaf.can_jump and leaf.most:
            reference.together[index] = max(leaf.most, reference.together.get(index, 0))


def _one_answer(
    answer: Callable[[float, int], list[torch.Tensor]], draw: int, index: int, roundoff: float
) -> torch.Tensor:
    return as_real(answer(roundoff, draw)[index])


def _jump_on_the_way(leaf: _Watched, answer: Callable[[float], torch.Tensor]) -> int:
    """How many of a group jump together within a few roundoffs, somewhere on a way that is halved to them.

    What follows smoothly goes half as far on half of the way, and is soon too little for a jump; 0 then.
    """
    near, far, here, there = 0.0, _FAR_ROUNDOFF, leaf.exact, answer(_FAR_ROUNDOFF)
    while True:
        places, most = leaf.jumped(here, there, far - near)
        if most == 0 or far - near < _TIE_ROUNDOFF:
            return most
        middle = (near + far) / 2
        between = answer(middle)
        one = places[0]
        first, second = ((side.flatten()[one] - between.flatten()[one]).abs() for side in (here, there))
        if bool(first >= second):
            far, there = middle, between
        else:
            near, here = middle, between


class _Watched:
    """One output tensor, watched while inputs move."""

    def __init__(self, exact: torch.Tensor, scale: torch.Tensor | None, dtype: torch.dtype) -> None:
        self.exact = exact
        self._scale = scale
        self._dtype = dtype
        self._changed = torch.zeros_like(exact, dtype=torch.bool)
        self._others: list[Values] = []
        self.most = 0
        """Elements of a group that were seen to jump together."""
        self._too_many = False

    @property
    def has_changed(self) -> bool:
        """Whether anything was seen to change, and not too much."""
        return not self._too_many and bool(self._changed.any())

    @property
    def can_jump(self) -> bool:
        """Whether it is floating, and does not jump nearly everywhere."""
        return self._scale is not None and not self._too_many and self.exact.numel() > 0

    def look(self, other: torch.Tensor) -> None:
        """Note where an answer differs: whole numbers at all, floating ones by a jump."""
        if other.shape != self.exact.shape or other.numel() == 0 or self._too_many:
            return
        if self._scale is None:
            self._changed |= other != self.exact
            return
        places, most = self.jumped(self.exact, other, _TIE_ROUNDOFF)
        self._too_many = places.numel() > most_jumping(other.numel())
        self.most = max(self.most, most)
        if places.numel() and not self._too_many:
            self._changed.view(-1)[places] = True
            self._others.append(Values(places, other.flatten()[places].double()))

    def jumped(self, here: torch.Tensor, there: torch.Tensor, way: float) -> tuple[torch.Tensor, int]:
        """Flat places that differ by far more than a smooth way explains, and how many of a group do."""
        if self._scale is None or here.shape != there.shape:
            return torch.empty(0, dtype=torch.int64), 0
        rows, values = grouped(here), grouped(there)
        step = max(1, _CHUNK_ELEMENTS // rows.shape[1])
        is_single = torch.finfo(self._dtype).bits >= _SINGLE_BITS
        share = max(_SHORT_JUMP, _JUMP * way / _FAR_ROUNDOFF) if is_single else _JUMP
        least = share * bound(OTHER_LIMIT, self._dtype)
        eps = torch.finfo(self._dtype).eps / 2
        found, most = [], 0
        for begin in range(0, rows.shape[0], step):
            part, have = rows[begin : begin + step], values[begin : begin + step]
            error, unit = (have - part).abs(), self._scale[begin : begin + step].unsqueeze(1)
            far = error.isfinite() & (error > least * (unit + eps * part.abs()))
            most = max(most, int(far.sum(1).max()))
            found.append(far.flatten().nonzero().flatten() + begin * rows.shape[1])
        return torch.cat(found), most

    def unsettled(self) -> torch.Tensor | None:
        """Of whole numbers, where they changed; None where most did."""
        mask = self._changed
        if self._scale is not None or not mask.numel() or float(mask.float().mean()) > MOST_UNSETTLED:
            return None
        return mask

    def jumps(self, together: int) -> Discontinuities | None:
        """Of floating values; None where none or most jumped. `together` is known from other inputs."""
        most = max(self.most, together)
        if not self.can_jump or most == 0:
            return None
        share, elements = float(self._changed.float().mean()), self.exact.numel()
        is_small = most_jumping(elements) > MOST_UNSETTLED * elements
        return Discontinuities(self._others, share, most) if is_small or share <= MOST_UNSETTLED else None


def most_jumping(elements: int) -> float:
    """How many elements of an output may jump at once and not be said to jump nearly everywhere."""
    return max(MOST_UNSETTLED * elements, min(_MOST_FEW, _FEW_SHARE * elements))


def _scale(
    own: torch.Tensor, best: torch.Tensor, moved: torch.Tensor, *, may_be_halved: bool
) -> tuple[torch.Tensor, bool]:
    """Scale of each group, and whether roundings to half precision on the way are most of the error.

    Limits are those of half precision then, and without these roundings an error may be what it always may.
    """
    information = torch.finfo(own.dtype)
    # Each step on the whole of a large output would take its memory again.
    groups = max(1, _CHUNK_ELEMENTS // group_columns(best))
    chunks = zip(*(torch.split(grouped(leaf), groups) for leaf in (own, best, moved)), strict=True)
    looked_at = [_group_scales(*chunk, eps=information.eps) for chunk in chunks]
    errors, others, squares = (torch.cat(column) for column in zip(*looked_at, strict=True))
    is_halved = may_be_halved and bool(_total(errors) > _HALVED * _total(others))
    scales = torch.maximum(errors, others * (OTHER_LIMIT / REDUCED_LIMIT) if is_halved else others)
    # A row of zeros behind a relu still carries the rounding of what was cut off.
    overall = squares.mean().sqrt() * (information.eps / 16)
    return torch.maximum(scales, overall) + information.tiny, is_halved


def _total(groups: torch.Tensor) -> float:
    """Root mean square of all groups."""
    return float(groups.square().mean().sqrt())


def _group_scales(
    own: torch.Tensor, best: torch.Tensor, moved: torch.Tensor, *, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The reference's own error, what else makes the scale, and the mean square of each group: [groups]."""
    squares = finite_or_zero(best).square().mean(1)
    own_error, other_error = (rms(finite_or_zero(other.double() - best)) for other in (own, moved))
    return own_error, torch.maximum(other_error, squares.sqrt() * (eps / 4)), squares


def all_finite(values: torch.Tensor) -> bool:
    """Whether every element is surely finite; False also where only their sum is not."""
    return bool(computable(values).sum().isfinite())


def finite_or_zero(values: torch.Tensor) -> torch.Tensor:
    """The values, and zeros in place of what is not finite."""
    return values if all_finite(values) else torch.where(values.isfinite(), values, 0.0)


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
