"""Compares outputs of timed calls with the baseline's.

Their inputs differ from all that were solved exactly; error scales and limits come from the draws that they
started from. The comparison itself is correctness/comparison.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from kernelwright.evaluator.referee.correctness.comparison import (
    COARSE,
    BaselineOutput,
    compare_with_baseline,
)
from kernelwright.evaluator.referee.correctness.discontinuities import (
    FlippedElements,
    FlipTolerance,
    most_jumping,
    uncommon,
)
from kernelwright.evaluator.referee.correctness.groups import as_real, bulk_rms, finite_or_zero, grouped, rms
from kernelwright.evaluator.referee.correctness.limits import change_limit, dtype_limit
from kernelwright.evaluator.referee.correctness.op_trace import ReductionTerms
from kernelwright.evaluator.referee.correctness.policy import (
    BASELINE_ERROR,
    CHUNK_ELEMENTS,
    EXACT_LIMIT,
    FLIP_LEEWAY,
    MAX_DOUBTED_CALLS,
    MAX_DOUBTED_SHARE,
    MAX_TIES,
    NEARLY_MEAN,
    PRECISE_TYPES,
    SMALLEST_SCALE,
)
from kernelwright.evaluator.referee.correctness.tolerance import ExpectedLeaf
from kernelwright.evaluator.referee.correctness.trial_cache import Trial
from kernelwright.evaluator.referee.reference.effects import AFTERWARDS
from kernelwright.evaluator.referee.reference.input_structure import computable
from kernelwright.evaluator.referee.reference.reference import Arguments
from kernelwright.evaluator.referee.timing.timed_inputs import ComparedCall, InputRecipe, Near, TimedInputs

ExactCheck = Callable[[Arguments, list[torch.Tensor], float], bool]
"""Tells whether outputs for some inputs are correct, within a limit."""


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """Result of comparing one turn's outputs with the baseline's."""

    mismatch: str
    """Empty where they agree."""
    flipped: dict[int, FlippedElements]
    """Elements that flipped since timing began, by output."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """Facts about one output, from all draws that calls start from."""

    name: str
    precision: torch.dtype
    """Coarsest type whose roundings it carries."""
    scales: torch.Tensor | None
    """Error scales [draws, groups]; None where a draw has none."""
    share: float
    """Largest scale of a large group relative to its size."""
    tolerance: FlipTolerance
    may_overflow: bool
    """True where its exact values are finite in all draws, whatever the reference makes of them."""
    roundoff: tuple[float, float] | None
    """Response to one rounding of every input, absolute and relative; None where changes are not compared."""

    @classmethod
    def of(cls, trials: Sequence[Trial], index: int, name: str, *, is_returned: bool) -> _Leaf:
        """Collect what the draws' exact outputs tell about an output; state is not `is_returned`."""
        expected = [trial.expected.leaves[index] for trial in trials]
        precision = min((leaf.precision for leaf in expected), key=lambda dtype: dtype.itemsize)
        tolerance = _flip_tolerance(expected)
        scales = [leaf.scale for leaf in expected if leaf.scale is not None]
        is_smooth = is_returned and tolerance.together == 0
        return cls(
            name=name,
            precision=precision,
            scales=torch.stack(scales) if len(scales) == len(expected) else None,
            share=_largest_share(expected),
            tolerance=tolerance,
            may_overflow=all(map(_is_finite, expected)),
            roundoff=_roundoff(expected) if is_smooth and precision in PRECISE_TYPES else None,
        )


class TimedOutputs:
    """Compares a candidate's timed outputs with the baseline's."""

    def __init__(
        self,
        inputs: TimedInputs,
        *,
        limit: float,
        change: ReductionTerms | None = None,
        is_correct: ExactCheck | None = None,
    ) -> None:
        """`limit` is for whole new draws; each trial that calls start from has its own.

        With `change`, the terms of the reference's reductions, changes between nearby inputs are compared.
        `is_correct` decides about calls that err more than the draws let expect.
        """
        self._change = change
        self._inputs = inputs
        self._is_correct = is_correct
        every = (*inputs.trials, *inputs.plain)
        self._limits = [limit if inputs.whole_draws else trial.limit for trial in every]
        self._redraws = inputs.redraws
        self._leaves = _leaves(inputs.trials)
        self._plain_leaves = _leaves(inputs.plain)

    def compare(
        self,
        candidate: list[torch.Tensor],
        baseline: list[torch.Tensor],
        recipe: InputRecipe,
        earlier: Mapping[int, FlippedElements],
    ) -> OutputComparison:
        """Compare timed outputs, each leaf [count, *shape], with the baseline's.

        State has shape [1, *shape]: what all calls left, each with an error of its own.
        `earlier` holds, by output, the elements that flipped since timing began.
        """
        total, doubted = dict(earlier), 0
        most_doubted = max(MAX_DOUBTED_CALLS, MAX_DOUBTED_SHARE * recipe.count)
        for index, (own, other) in enumerate(zip(candidate, baseline, strict=True)):
            if own.numel() == 0:
                continue
            step = max(1, CHUNK_ELEMENTS // own[0].numel())
            first = recipe.count - len(own)
            for begin in range(0, len(own), step):
                rows, part = slice(begin, begin + step), slice(first + begin, first + begin + step)
                leaf = (self._plain_leaves if recipe.plain else self._leaves)[index]
                scale = self._scale(leaf, recipe, part)
                expected = BaselineOutput(
                    values=other[rows],
                    scale=scale if scale is None else scale * (1 + first),
                    limits=self._allowed(recipe, part, leaf.precision),
                    least_share=leaf.share,
                    tolerance=leaf.tolerance,
                    may_overflow=leaf.may_overflow,
                )
                flipped = total.get(index, FlippedElements())
                found = compare_with_baseline(expected, own[rows], earlier=flipped)
                total[index] = flipped + found.flipped
                calls = [part.start + call for call in found.beyond]
                doubted += len(calls)
                is_doubtful = bool(calls) and doubted <= most_doubted
                if found.mismatch and not (is_doubtful and self._are_correct(candidate, recipe, calls)):
                    place = f"timed calls {part.start + 1} to {part.start + len(own[rows])}"
                    return OutputComparison(f"{leaf.name}, {place}: {found.mismatch}", total)
                other_calls = [part.start + call for call in found.differing[:1]]
                if self._is_correct is not None and not self._are_correct(candidate, recipe, other_calls):
                    place = f"{leaf.name}, timed call {other_calls[0] + 1}"
                    return OutputComparison(f"{place}: other whole numbers, where nothing is tied", total)
        return OutputComparison(self._compare_change(candidate, baseline, recipe.near), total)

    def _are_correct(self, candidate: list[torch.Tensor], recipe: InputRecipe, calls: Sequence[int]) -> bool:
        """Compare calls that err more than expected with exact outputs for their own inputs.

        Some inputs answer to roundings far more than any of the draws did, such as nearly singular matrices.
        """
        return all(
            self._is_exact(recipe, call, [leaf[call] for leaf in candidate if len(leaf) == recipe.count])
            for call in calls
        )

    def errs_beside_exact(self, kept: ComparedCall) -> str:
        """Compare an ordinary call with exact outputs, as verification does; empty where it is right.

        Beside the baseline it may err by as much as any group of any draw does.
        """
        own = kept.candidate[: kept.own]
        if self._is_correct is None or self._is_exact(kept.recipe, kept.call, own):
            return ""
        limit = self._limits[int(kept.recipe.bases[kept.call])]
        return f"a timed call of ordinary inputs errs more than {limit:.3g} times the reference's own error"

    def _is_exact(self, recipe: InputRecipe, call: int, outputs: list[torch.Tensor]) -> bool:
        """Compare a call's outputs with exact ones for its inputs; False where there are none."""
        if self._is_correct is None:
            return False
        limit = self._limits[int(recipe.bases[call])]
        return self._is_correct(self._inputs.arguments(recipe, call), outputs, limit)

    def _compare_change(
        self, candidate: list[torch.Tensor], baseline: list[torch.Tensor], near: Near | None
    ) -> str:
        """Compare how single outputs changed from those of a call with nearby inputs, if there is one."""
        if self._change is None or near is None:
            return ""
        for index, leaf in enumerate(self._leaves):
            if leaf.roundoff is None:
                continue
            least, share = leaf.roundoff
            own, other = (
                now[index][near.call] - before[index]
                for now, before in ((candidate, near.earlier.candidate), (baseline, near.earlier.baseline))
            )
            unit = max(least, share * _size(near.earlier.baseline[index]))
            error, exact = as_real(own - other), as_real(near.earlier.baseline[index])
            ratio = bulk_rms(error, exact) / unit / math.sqrt(2)
            if not ratio <= change_limit(self._change):
                return (
                    f"{leaf.name}, timed call {near.call + 1} beside one with nearby inputs: their "
                    f"difference errs {ratio:.3g} times a rounding of the inputs; {COARSE}"
                )
        return ""

    def _scale(self, leaf: _Leaf, recipe: InputRecipe, part: slice) -> torch.Tensor | None:
        """Error scales [calls, groups] of a leaf for some calls of a batch."""
        scales = leaf.scales
        if scales is None:
            return None
        first = len(self._inputs.trials) if recipe.plain else 0
        chosen = scales[recipe.bases[part].to(scales.device) - first]
        if self._redraws:
            # Not known group by group; more than the worst would leave room for narrower arithmetic.
            return scales.amax().expand_as(chosen)
        # The noise moves elements across thresholds: a group of zeros in the draw need not be one here.
        return torch.maximum(chosen, scales.square().mean(-1).sqrt().amax())

    def _allowed(self, recipe: InputRecipe, part: slice, dtype: torch.dtype) -> torch.Tensor:
        """Multiples of its scale that two outputs of a call may be apart, shape [calls]: both workers err."""
        limits = [self._limits[base] for base in recipe.bases[part].tolist()]
        if dtype.is_floating_point:
            limits = [
                dtype_limit(most, dtype) + (BASELINE_ERROR if most > EXACT_LIMIT else 0.0) for most in limits
            ]
        return torch.tensor(limits, device="cpu")


def _leaves(trials: Sequence[Trial]) -> list[_Leaf]:
    """Collect what some draws' exact outputs tell about each output and effect."""
    if not trials:
        return []
    output = trials[0].expected.output
    effects = [name + AFTERWARDS for name in output.effects.names]
    names = [*(f"output {index}" for index in range(output.returned)), *effects]
    return [
        _Leaf.of(trials, index, name, is_returned=index < output.returned) for index, name in enumerate(names)
    ]


def _is_finite(leaf: ExpectedLeaf) -> bool:
    """Return whether exact values of an output are finite; where the reference overflows, they are."""
    finite = computable(leaf.exact).isfinite()
    return bool((finite if leaf.overflowed is None else finite | leaf.overflowed).all())


def _roundoff(expected: list[ExpectedLeaf]) -> tuple[float, float] | None:
    """Largest response of a leaf to one rounding of every input, and that relative to its size."""
    known = [
        (leaf.roundoff, leaf.roundoff / max(_size(leaf.exact), SMALLEST_SCALE))
        for leaf in expected
        if leaf.roundoff is not None
    ]
    return (max(unit for unit, _ in known), max(share for _, share in known)) if known else None


def _size(values: torch.Tensor) -> float:
    """Root mean square that few groups exceed, of complex numbers' parts."""
    return bulk_rms(as_real(values), as_real(values))


def _flip_tolerance(expected: list[ExpectedLeaf]) -> FlipTolerance:
    """Tolerance for elements of an output that hang on rounding, from what verification saw."""
    jumps = [leaf.jumps for leaf in expected if leaf.jumps is not None]
    shares = [
        int(leaf.unsettled.count_nonzero()) / max(1, uncommon(leaf.exact))
        for leaf in expected
        if leaf.unsettled is not None
    ]
    elements = max(1, expected[0].exact.numel())
    if not jumps:
        return FlipTolerance(min(MAX_TIES, FLIP_LEEWAY * max(shares, default=0.0)))
    share = min(most_jumping(elements) / elements, max(found.share for found in jumps))
    return FlipTolerance(FLIP_LEEWAY * share, max(found.most for found in jumps))


def _largest_share(expected: list[ExpectedLeaf]) -> float:
    """Largest scale of the draws' large groups relative to their size.

    Where few inputs stand out, as before an exponential, a call may have a larger group than any draw had.
    """
    known = (_share(leaf.scale, leaf.exact) for leaf in expected if leaf.scale is not None)
    return max(known, default=0.0)


def _share(scale: torch.Tensor, exact: torch.Tensor) -> float:
    sizes = rms(finite_or_zero(grouped(exact)))
    # Small ones may be what is left where terms cancelled. Where all are equal, all are large.
    large = (sizes > 0) & (sizes >= NEARLY_MEAN * rms(sizes[None]))
    return float((scale[large] / sizes[large]).max()) if bool(large.any()) else 0.0
