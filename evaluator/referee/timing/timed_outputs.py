"""Compares outputs of timed calls with the baseline's.

Their inputs differ from all that were solved exactly; error scales and limits come from the draws that they
started from. The comparison itself is correctness/comparison.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from kernelwright.evaluator.referee.correctness.comparison import (
    BaselineOutput,
    compare_with_baseline,
    uncommon,
)
from kernelwright.evaluator.referee.correctness.discontinuities import (
    FlippedElements,
    FlipTolerance,
    most_jumping,
)
from kernelwright.evaluator.referee.correctness.groups import finite_or_zero, grouped, rms
from kernelwright.evaluator.referee.correctness.policy import (
    BASELINE_ERROR,
    CHUNK_ELEMENTS,
    FLIP_LEEWAY,
    MAX_UNSETTLED,
    NEARLY_MEAN,
)
from kernelwright.evaluator.referee.correctness.tolerance import Expected, dtype_limit
from kernelwright.evaluator.referee.correctness.trial_cache import Trial
from kernelwright.evaluator.referee.timing.timed_inputs import InputRecipe, TimedInputs


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """Result of comparing one turn's outputs with the baseline's."""

    mismatch: str
    """Empty where they agree."""
    flipped: dict[int, FlippedElements]
    """Elements that flipped since timing began, by output."""


class TimedOutputs:
    """Compares a candidate's timed outputs with the baseline's."""

    def __init__(self, inputs: TimedInputs, *, limit: float) -> None:
        """`limit` is for whole new draws; each trial that calls start from has its own."""
        trials = inputs.trials
        self._limits = [limit if inputs.whole_draws else trial.limit for trial in trials]
        self._redraws = inputs.redraws
        self._scales = [
            torch.stack(known) if len(known) == len(trials) else None for known in _known_scales(trials)
        ]
        self._shares = [max(known, default=0.0) for known in _known_shares(trials)]
        expected = [trial.expected for trial in trials]
        leaves = range(len(expected[0].exact))
        self._precisions = [_precision(expected, leaf) for leaf in leaves]
        self._tolerances = [_flip_tolerance(expected, leaf) for leaf in leaves]

    def compare(
        self,
        candidate: list[torch.Tensor],
        baseline: list[torch.Tensor],
        recipe: InputRecipe,
        earlier: Mapping[int, FlippedElements],
    ) -> OutputComparison:
        """Compare timed outputs, each leaf [count, *shape], with the baseline's.

        `earlier` holds, by output, the elements that flipped since timing began.
        """
        total = dict(earlier)
        for leaf, (own, other) in enumerate(zip(candidate, baseline, strict=True)):
            if own.numel() == 0:
                continue
            step = max(1, CHUNK_ELEMENTS // own[0].numel())
            for begin in range(0, recipe.count, step):
                part = slice(begin, begin + step)
                expected = BaselineOutput(
                    values=other[part],
                    scale=self._scale(leaf, recipe, part),
                    limits=self._allowed(recipe, part, self._precisions[leaf]),
                    least_share=self._shares[leaf],
                    tolerance=self._tolerances[leaf],
                )
                flipped = total.get(leaf, FlippedElements())
                found = compare_with_baseline(expected, own[part], earlier=flipped)
                total[leaf] = flipped + found.flipped
                if found.mismatch:
                    calls = f"timed calls {begin + 1} to {begin + len(own[part])}"
                    return OutputComparison(f"output {leaf}, {calls}: {found.mismatch}", total)
        return OutputComparison("", total)

    def _scale(self, leaf: int, recipe: InputRecipe, part: slice) -> torch.Tensor | None:
        """Error scales [calls, groups] of a leaf for some calls of a batch."""
        scales = self._scales[leaf]
        if scales is None:
            return None
        chosen = scales[recipe.bases[part].to(scales.device)]
        if self._redraws:
            # Not known group by group; more than the worst would leave room for narrower arithmetic.
            return scales.amax().expand_as(chosen)
        # The noise moves elements across thresholds: a group of zeros in the draw need not be one here.
        return torch.maximum(chosen, scales.square().mean(-1).sqrt().amax())

    def _allowed(self, recipe: InputRecipe, part: slice, dtype: torch.dtype) -> torch.Tensor:
        """Multiples of its scale that two outputs of a call may be apart, shape [calls]: both workers err."""
        limits = [self._limits[base] for base in recipe.bases[part].tolist()]
        if dtype.is_floating_point:
            limits = [dtype_limit(most, dtype) + BASELINE_ERROR for most in limits]
        return torch.tensor(limits, device="cpu")


def _precision(expected: list[Expected], leaf: int) -> torch.dtype:
    """Coarsest type whose roundings an output carries."""
    return min((each.precision(leaf) for each in expected), key=lambda dtype: dtype.itemsize)


def _flip_tolerance(expected: list[Expected], leaf: int) -> FlipTolerance:
    """Tolerance for elements of an output that hang on rounding, from what verification saw."""
    jumps = [
        found
        for each in expected
        if each.decisions.jumps and (found := each.decisions.jumps[leaf]) is not None
    ]
    masks = [
        (mask, each.exact[leaf])
        for each in expected
        if each.decisions.unsettled and (mask := each.decisions.unsettled[leaf]) is not None
    ]
    shares = [int(mask.count_nonzero()) / max(1, uncommon(exact)) for mask, exact in masks]
    elements = max(1, expected[0].exact[leaf].numel())
    most = most_jumping(elements) / elements if jumps else MAX_UNSETTLED
    share = min(most, max((found.share for found in jumps), default=max(shares, default=0.0)))
    return FlipTolerance(FLIP_LEEWAY * share, max((found.most for found in jumps), default=0))


def _known_scales(trials: Sequence[Trial]) -> list[list[torch.Tensor]]:
    """Error scales of those draws that have one, per output."""
    columns = zip(*(trial.expected.scales for trial in trials), strict=True)
    return [[scale for scale in column if scale is not None] for column in columns]


def _known_shares(trials: Sequence[Trial]) -> list[list[float]]:
    """Largest scale of the draws' large groups relative to their size, per output.

    Where few inputs stand out, as before an exponential, a call may have a larger group than any draw had.
    """
    return [
        [
            _share(scale, trial.expected.exact[leaf])
            for trial in trials
            if (scale := trial.expected.scales[leaf]) is not None
        ]
        for leaf in range(len(trials[0].expected.scales))
    ]


def _share(scale: torch.Tensor, exact: torch.Tensor) -> float:
    sizes = rms(finite_or_zero(grouped(exact)))
    # Small ones may be what is left where terms cancelled. Where all are equal, all are large.
    large = (sizes > 0) & (sizes >= NEARLY_MEAN * rms(sizes[None]))
    return float((scale[large] / sizes[large]).max()) if bool(large.any()) else 0.0
