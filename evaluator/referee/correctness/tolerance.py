"""The tolerance: how far an honest computation may be from the exact outputs, measured for these very inputs.

A group's scale is the largest of: the reference's own RMS error against float64; the RMS response to inputs
and parameters perturbed by one unit roundoff (a randomised first-order condition estimate, after the CESTAC
idea of Vignes, 1993); a quarter of an eps of the group's RMS. Floors: a share of the median relative scale
(at most 2 eps), and eps/16 of the whole output. `_scale` says what changes where the reference rounds to half
precision on the way, `Expected.settled` what is added before a group fails. A tolerance is limit × scale:
limits.py has the limits, comparison.py applies both.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

import torch
from torch import nn

from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.discontinuities import (
    Discontinuities,
    OutputWatch,
    Perturbed,
    jumping_together,
    look_again,
    look_for_ties,
    to_and_fro,
)
from kernelwright.evaluator.referee.correctness.groups import (
    all_finite,
    as_real,
    bulk,
    finite_or_zero,
    gap_below,
    group_columns,
    grouped,
    least_scales_by_size,
    refined,
    rms,
    set_apart,
    typical_error,
)
from kernelwright.evaluator.referee.correctness.limits import HALF_BITS, dtype_limit
from kernelwright.evaluator.referee.correctness.op_trace import OpTrace
from kernelwright.evaluator.referee.reference.input_structure import computable
from kernelwright.evaluator.referee.reference.perturbation import has_integers, movable, perturbed, untied
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference
from kernelwright.evaluator.schema.errors import ProblemError


@dataclass(frozen=True, slots=True)
class Rest:
    """An output without the elements that stand out, in groups as small as can be."""

    below: float
    """Their least size; infinite where none do."""
    scale: torch.Tensor
    """The error scale of each such group without them, shape [groups]."""
    precision: torch.dtype


@dataclass(frozen=True, slots=True)
class ExpectedLeaf:
    """One exact output tensor, and the scale of honest errors; whole numbers have none."""

    own: torch.Tensor
    """The reference's own, in the problem's dtype."""
    exact: torch.Tensor
    """float64 values (floating leaves, complex ones in parts) or the values themselves."""
    scale: torch.Tensor | None = None
    """The error scale of each group, shape [groups]."""
    roundoff: float | None = None
    """The most by which one rounding of every input moves most groups."""
    half: torch.dtype | None = None
    """The half precision whose roundings on the way are most of its error, where it is wider."""
    overflowed: torch.Tensor | None = None
    """Where only the reference's own arithmetic is not finite: no candidate is held to that."""
    unsettled: torch.Tensor | None = None
    """Whole numbers where ties or rounding decide: which of two equal values is the first."""
    jumps: Discontinuities | None = None
    """Floating values that jump where a decision hangs on rounding."""
    rest: Rest | None = None
    """The rest, where some elements stand out or its groups could be smaller."""
    typical: float | None = None
    """The relative error that most elements stay below."""

    @property
    def precision(self) -> torch.dtype:
        """The type whose roundings a floating leaf carries."""
        return self.half or as_real(self.own).dtype


@dataclass(frozen=True, slots=True)
class Expected:
    """The exact outputs for one set of inputs, and the scale of honest errors."""

    output: Output
    """The reference's own output, in the problem's dtypes."""
    leaves: list[ExpectedLeaf]
    in_double: bool
    """False where the reference cannot run in float64."""
    responses: Callable[[], list[torch.Tensor | None]] | None = None
    """Computes, per floating leaf, the response of each group to further perturbations, shape [groups]."""
    is_double: bool = False
    """True where all of the problem is in double precision: the unit of errors is a rounding there."""
    flips: Mapping[int, int] = field(default_factory=dict)
    """Elements of one group that jump together, by output."""
    are_ambiguous: bool = False
    """True where so many whole numbers of an output hang on rounding that none is excused."""
    decide_again: Callable[[list[ExpectedLeaf]], list[ExpectedLeaf]] | None = None
    """Marks in outputs what further perturbations find of decisions; None where rounding decides nothing."""

    def decided_again(self) -> Expected:
        """Return the same with what further perturbations find of decisions that hang on rounding."""
        if self.decide_again is None:
            return self
        return replace(self, leaves=self.decide_again(self.leaves), decide_again=None)

    def settled(self) -> Expected:
        """Return the same with scales from many perturbations: one may by chance hardly move a group."""
        if self.responses is None:
            return self
        leaves = [
            replace(leaf, scale=torch.maximum(leaf.scale, response))
            if leaf.scale is not None and response is not None and leaf.jumps is None
            else leaf
            for leaf, response in zip(self.leaves, self.responses(), strict=True)
        ]
        return replace(self, leaves=leaves, responses=None)


def expect(
    reference: Reference,
    model: nn.Module,
    arguments: Arguments,
    math_policy: str,
    trace: OpTrace,
    *,
    is_tiny: bool = False,
) -> Expected:
    """Compute the exact outputs and their error scales; inputs that are `is_tiny` are smaller than usual."""
    wide = functools.partial(reference.in_double, keep_roundings=trace.keeps_roundings)
    output = reference.call(model, arguments)
    double = wide(model, arguments)
    call = functools.partial(
        perturbed, reference, model, arguments, wide=wide if double is not None else None
    )
    roundoff = _roundoff(model, arguments, math_policy)
    exact, other = (double or output).leaves, call(roundoff, 0)
    leaves = [
        _solve_leaf(leaf, exact[index], other[index], trace) for index, leaf in enumerate(output.leaves)
    ]
    # Perturbations would undo roundings that are meant.
    rounds_to = None if trace.keeps_roundings else trace.half
    coarse = None if rounds_to is None else torch.finfo(rounds_to).eps / 2
    responses = functools.cache(lambda: _responses(call, roundoff, leaves, coarse=coarse))
    can_move = movable(model, arguments)
    expected = Expected(
        output,
        leaves,
        double is not None,
        responses=responses if can_move else None,
        is_double=roundoff < policy.UNIT_ROUNDOFF["fp32"],
    )
    has_whole = any(leaf.scale is None for leaf in leaves)
    if not ((has_whole or trace.decides) and (can_move or (has_whole and has_integers(arguments)))):
        return expected
    rounded = functools.partial(perturbed, reference, model, arguments, wide=None)
    apart = functools.partial(untied, reference, model, arguments)
    return _with_decisions(expected, call, rounded, apart, trace, is_tiny=is_tiny)


def _with_decisions(
    expected: Expected,
    call: Perturbed,
    rounded: Perturbed,
    apart: Callable[[int], list[torch.Tensor]],
    trace: OpTrace,
    *,
    is_tiny: bool,
) -> Expected:
    """Find what hangs on rounding: in wide arithmetic by `call`, and by `rounded` in the reference's own.

    What hangs on the order of equal integers is found by `apart`.
    """
    watched = [
        OutputWatch(leaf.exact, leaf.scale, leaf.precision, dtype_limit(policy.OTHER_LIMIT, leaf.precision))
        if leaf.scale is not None
        else OutputWatch(leaf.exact, None, leaf.exact.dtype, 0.0)
        for leaf in expected.leaves
    ]
    ties = policy.TINY_TIE_ROUNDOFF if is_tiny else policy.TIE_ROUNDOFF
    look_for_ties(watched, to_and_fro(rounded, ties, policy.ROUNDED_TIE_DRAWS))
    if trace.half is not None:
        coarse = 2 * torch.finfo(trace.half).eps
        look_for_ties(watched, to_and_fro(call, coarse, policy.HALF_TIE_DRAWS))
    untied_outputs = takewhile(bool, map(apart, range(policy.ROUNDED_TIE_DRAWS)))
    look_for_ties(watched, untied_outputs, are_certain=False)
    together = jumping_together(watched, call, decides=trace.decides, flips=trace.flips)
    jumping = enumerate(zip(watched, together, strict=True)) if trace.decides else ()

    look_once = functools.cache(functools.partial(look_again, watched, call))

    def mark(leaves: list[ExpectedLeaf]) -> list[ExpectedLeaf]:
        return [
            replace(leaf, unsettled=watch.unsettled(), jumps=watch.jumps(max(most, watch.most)))
            for leaf, watch, most in zip(leaves, watched, together, strict=True)
        ]

    def decide_again(leaves: list[ExpectedLeaf]) -> list[ExpectedLeaf]:
        look_once()
        return mark(leaves)

    return replace(
        expected,
        leaves=mark(expected.leaves),
        decide_again=decide_again,
        flips={index: most for index, (watch, most) in jumping if watch.can_jump and most},
        are_ambiguous=any(watch.is_ambiguous for watch in watched),
    )


def _solve_leaf(
    leaf: torch.Tensor, exact: torch.Tensor, perturbed_leaf: torch.Tensor, trace: OpTrace
) -> ExpectedLeaf:
    """Measure one output leaf of the reference against its float64 values and the perturbed ones."""
    if not (leaf.is_floating_point() or leaf.is_complex()):
        return ExpectedLeaf(leaf, exact)
    computed, values, overflowed = as_real(leaf), as_real(exact).double(), None
    if not all_finite(computed):
        not_finite = ~computable(computed).isfinite()
        overflowed = _overflowed(not_finite, values)
        values = torch.where(not_finite, computed.double(), values)
    is_wide = torch.finfo(computed.dtype).bits > HALF_BITS and not trace.keeps_roundings
    moved, half = as_real(perturbed_leaf), trace.half if is_wide else None
    found, rest = _scale(computed, values, moved, half=half), _rest(computed, values, moved, half=half)
    typical = typical_error(computed, moved, values, eps=torch.finfo(half or computed.dtype).eps)
    return replace(found, own=leaf, overflowed=overflowed, rest=rest, typical=typical)


def _rest(
    computed: torch.Tensor, exact: torch.Tensor, moved: torch.Tensor, *, half: torch.dtype | None
) -> Rest | None:
    below = gap_below(exact)
    if below is None and refined(exact) is exact:
        return None
    below = below or math.inf
    apart = (set_apart(each, exact, below) for each in (computed, exact, moved))
    found = _scale(*apart, half=half, is_rest=True)
    return None if found.scale is None else Rest(below, found.scale, found.precision)


def _responses(
    call: Perturbed, roundoff: float, leaves: list[ExpectedLeaf], *, coarse: float | None
) -> list[torch.Tensor | None]:
    """Per floating leaf, the median response of each group to further perturbations: few make it jump.

    With `coarse`, the size of the reference's roundings on the way, a share of the largest response to such
    perturbations counts, too, where it errs about as much in most groups: a row whose two largest scores such
    a rounding orders may go either way, and the reference's own rounding may by chance have moved it little.
    """
    usual = _moved(call, roundoff, leaves)
    found = [torch.stack(each).median(0).values if each else None for each in usual]
    if coarse is None:
        return found
    for index, each in enumerate(_moved(call, coarse, leaves)):
        response, scale = found[index], leaves[index].scale
        if not each or response is None or scale is None:
            continue
        largest = torch.stack(each).amax(0)
        if float(largest.median()) <= policy.HALF_RESPONSE_RATIO * float(scale.median()):
            found[index] = torch.maximum(response, largest * policy.HALF_RESPONSE_SHARE)
    return found


def _moved(call: Perturbed, roundoff: float, expected: list[ExpectedLeaf]) -> list[list[torch.Tensor]]:
    """Per floating leaf, the response of each group to each of some perturbations."""
    found: list[list[torch.Tensor]] = [[] for _ in expected]
    for sample in range(1, policy.SETTLING_SAMPLES + 1):
        leaves: list[torch.Tensor] = []
        with contextlib.suppress(ProblemError):  # it need not run on each
            leaves = call(roundoff, -sample)
        for index, leaf in enumerate(leaves):
            is_known = leaf.is_floating_point() or leaf.is_complex()
            if is_known and as_real(leaf).shape == (exact := expected[index].exact).shape:
                found[index].append(_response(as_real(leaf), exact))
    return found


def _response(moved: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    groups = max(1, policy.CHUNK_ELEMENTS // group_columns(exact))
    chunks = zip(*(torch.split(grouped(leaf), groups) for leaf in (moved, exact)), strict=True)
    return torch.cat([rms(finite_or_zero(after.double() - before)) for after, before in chunks])


def _overflowed(not_finite: torch.Tensor, exact: torch.Tensor) -> torch.Tensor | None:
    """Elements that the reference lost on its way to finite values; none where they are many."""
    found = not_finite & exact.isfinite()
    share = int(found.count_nonzero()) / max(1, found.numel())
    return found if 0 < share <= 1 - policy.FINITE_SHARE else None


def _roundoff(model: nn.Module, arguments: Arguments, math_policy: str) -> float:
    """One rounding under the policy, or of float64 where an author asked for double precision throughout."""
    tensors = (*arguments.leaves, *model.parameters(), *model.buffers())
    kinds = {
        (tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype)
        for tensor in tensors
        if tensor.is_floating_point() or tensor.is_complex()
    }
    # Half of eps, float64's unit roundoff, would be lost where a perturbation is added to one.
    is_double = math_policy == "fp32" and kinds == {torch.float64}
    return torch.finfo(torch.float64).eps if is_double else policy.UNIT_ROUNDOFF[math_policy]


def _scale(
    computed: torch.Tensor,
    exact: torch.Tensor,
    moved: torch.Tensor,
    *,
    half: torch.dtype | None,
    is_rest: bool = False,
) -> ExpectedLeaf:
    """Measure error scales, and find out if roundings to `half` precision on the way are most of the error.

    If so, half precision's lower limits apply. The part of the scale without these roundings is raised by as
    much as they are lower, so that it allows what it always does. Every group may err by a share of the whole
    output's size; that of the rest, whose sizes may have a long tail, is the median group's.
    """
    information = torch.finfo(computed.dtype)
    # Each step on the whole of a large output would take its memory again.
    groups = max(1, policy.CHUNK_ELEMENTS // group_columns(exact))
    chunks = zip(*(torch.split(grouped(leaf), groups) for leaf in (computed, exact, moved)), strict=True)
    measured = [_group_scales(*chunk, eps=information.eps) for chunk in chunks]
    own, others, squares = (torch.cat(column) for column in zip(*measured, strict=True))
    is_halved = half is not None and (_overall_rms(own) > policy.HALF_PRECISION_RATIO * _overall_rms(others))
    scales = torch.maximum(own, others * (policy.OTHER_LIMIT / policy.REDUCED_LIMIT) if is_halved else others)
    sizes = squares.sqrt()
    scales = torch.maximum(scales, least_scales_by_size(scales, sizes, eps=information.eps))
    usual = sizes[sizes > 0].nanmedian() if is_rest and bool(sizes.any()) else squares.mean().sqrt()
    overall = usual * (policy.OVERALL_EPS * information.eps)
    # Of half precision the one rounding that a reference makes is nearly all of its error.
    share = 1.0 if is_halved or information.bits == HALF_BITS else policy.OWN_ERROR_SHARE
    roundoff = max(bulk(others, sizes), bulk(own, sizes) / share, information.tiny)
    scales = torch.maximum(scales, overall) + information.tiny
    return ExpectedLeaf(computed, exact, scales, roundoff, half if is_halved else None)


def _overall_rms(groups: torch.Tensor) -> float:
    return float(groups.square().mean().sqrt())


def _group_scales(
    computed: torch.Tensor, exact: torch.Tensor, moved: torch.Tensor, *, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The reference's own error, the rest of the scale, and the mean square, each [groups]."""
    squares = finite_or_zero(exact).square().mean(1)
    own, response = (rms(finite_or_zero(each.double() - exact)) for each in (computed, moved))
    return own, torch.maximum(response, squares.sqrt() * (policy.VALUE_EPS * eps)), squares


def output_scales(expected: Expected) -> list[float | None]:
    """The scale of each output as a whole."""
    return [None if leaf.scale is None else _overall_rms(leaf.scale) for leaf in expected.leaves]


def relative_scales(expected: Expected) -> list[float]:
    """The scale of each output of numbers, relative to its size."""
    return [
        scale / (float(rms(finite_or_zero(as_real(leaf.exact)).reshape(1, -1))) or 1.0)
        for leaf, scale in zip(expected.leaves, output_scales(expected), strict=True)
        if scale is not None
    ]


def with_least_scales(expected: Expected, usual: list[float | None]) -> Expected:
    """Raise the scales of outputs of tiny inputs to a share of the usual ones.

    Kernels lose bits of tiny inputs that pass through numbers near one, as in `exp(x) - 1`: nothing beside
    outputs of the problem's own inputs, and few of the bits of tiny ones.
    """
    leaves = [
        leaf
        if leaf.scale is None or most is None
        else replace(leaf, scale=torch.maximum(leaf.scale, _floor(leaf.exact, most)))
        for leaf, most in zip(expected.leaves, usual, strict=True)
    ]
    return replace(expected, leaves=leaves)


def _floor(exact: torch.Tensor, usual: float) -> torch.Tensor:
    parts = torch.split(grouped(exact), max(1, policy.CHUNK_ELEMENTS // group_columns(exact)))
    sizes = torch.cat([rms(finite_or_zero(part)) for part in parts])
    needed = 2.0**-policy.SMALL_INPUT_BITS / policy.OTHER_LIMIT
    return (sizes * needed).clamp_max(policy.SMALL_INPUT_SHARE * usual)
