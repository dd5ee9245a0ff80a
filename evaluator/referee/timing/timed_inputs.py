"""Fresh inputs for timed calls: secret draws times secret noise, written straight into shared memory.

No timed call sees inputs that any earlier call saw, so an answer kept by address, shape, fingerprint or
content is an answer to another question. The write is the publication: it happens while the contestant is
frozen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from kernelwright.evaluator.ipc.tensor_layout import Slot, stacked
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
from kernelwright.evaluator.referee.correctness.input_distributions import Starts
from kernelwright.evaluator.referee.correctness.policy import (
    BASELINE_ERROR,
    CHUNK_ELEMENTS,
    FEWEST_SCATTERED,
    FLIP_LEEWAY,
    MAX_UNSETTLED,
    NEARLY_MEAN,
)
from kernelwright.evaluator.referee.correctness.tolerance import Expected, dtype_limit
from kernelwright.evaluator.referee.correctness.trial_cache import Trial
from kernelwright.evaluator.referee.reference.input_structure import keeper, variable
from kernelwright.evaluator.referee.reference.reference import Arguments

_NOISE_SLACK = 65536
_LEAF_SHIFT = 4099
"""Places between the factors of two inputs: with the same ones their products would carry no sign."""
_MOST_DRAWN_CALLS = 32
_MOST_SMALL_DRAWS = 128
"""The same of small inputs, whose calls are so short that fewer leave our clock little to say."""
_SMALL_DRAW = 1 << 14
"""Elements."""
_FEW_ZEROS = 0.01
_AT_ONCE = 1 << 20
"""Elements of inputs that are made at once; beyond, copies would leave the cache."""


@dataclass(frozen=True, slots=True)
class InputRecipe:
    """How the inputs of one batch are made; the same for both sides of a turn."""

    bases: torch.Tensor
    """Which draw each call starts from, shape [count]."""
    offset: int
    stride: int
    noise: dict[torch.dtype, torch.Tensor]
    """Factors that each call starts reading at its own place; empty where there are whole new draws."""
    drawn: list[dict[int, torch.Tensor]] = field(default_factory=list)
    """Per call, newly drawn inputs by their place: those whose noise would not make them new."""

    @property
    def count(self) -> int:
        """Calls in the batch."""
        return self.bases.numel()


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """Result of comparing one turn's outputs with the baseline's."""

    mismatch: str
    """Empty where they agree."""
    flipped: dict[int, FlippedElements]
    """Elements that flipped since timing began, by output."""


class TimedInputs:
    """Makes and publishes inputs, and checks what both sides made of them."""

    def __init__(
        self,
        starts: Starts,
        fresh: Callable[[], Arguments],
        *,
        secret: random.Random,
        limit: float,
        inputs_stay: bool,
    ) -> None:
        """`limit` is for whole new draws; each trial that calls start from has its own."""
        bases = starts.trials
        self._starts = starts
        self.inputs_stay = inputs_stay
        """Whether a call must leave its inputs as they are."""
        self._fresh = fresh
        self._secret = secret
        self._limit = limit
        self._limits = [trial.limit for trial in bases]
        leaves = [trial.arguments.leaves for trial in bases]
        given = len(bases[0].arguments.given)
        self._stacks = [torch.stack(group) if _alike(group) else None for group in zip(*leaves, strict=True)]
        self._draws = len(bases)
        ordered = bases[0].arguments.ordered
        self._noisy = [
            stack is not None and index not in ordered and variable(stack)
            for index, stack in enumerate(self._stacks)
        ]
        self._keepers = [
            keeper(stack) if stack is not None and is_noisy else None
            for stack, is_noisy in zip(self._stacks, self._noisy, strict=True)
        ]
        noisy = [
            stack
            for stack, is_noisy in zip(self._stacks, self._noisy, strict=True)
            if stack is not None and is_noisy
        ]
        # Noise on cotangents alone would leave outputs as they were; on complex numbers there is none.
        self.whole_draws = (
            not any(self._noisy[:given])
            or None in self._stacks
            or any(leaf.is_complex() for leaf in leaves[0])
        )
        everything = range(len(self._stacks))
        self._redrawn = [index for index in everything if self.whole_draws or self._comes_again(index)]
        self._floating = {stack.dtype: stack.device for stack in noisy}
        self._longest = max((stack[0].numel() for stack in noisy), default=0)
        self._scales = [
            torch.stack(known) if len(known) == len(bases) else None for known in _known_scales(bases)
        ]
        self._shares = [max(known, default=0.0) for known in _known_shares(bases)]
        expected = [trial.expected for trial in bases]
        self._precisions = [_precision(expected, leaf) for leaf in range(len(expected[0].exact))]
        self._tolerances = [_flip_tolerance(expected, leaf) for leaf in range(len(expected[0].exact))]

    def most_calls(self, wanted: int) -> int:
        """Inputs that noise does not make new are drawn each time, which is slow."""
        if not self._redrawn:
            return wanted
        elements = sum(leaf.numel() for leaf in self._starts.trials[0].arguments.leaves)
        return min(wanted, _MOST_SMALL_DRAWS if elements <= _SMALL_DRAW else _MOST_DRAWN_CALLS)

    def recipe(self, count: int) -> InputRecipe:
        """Decide on the inputs of a batch."""
        bases = torch.tensor([self._secret.randrange(self._draws) for _ in range(count)], device="cpu")
        drawn = [self._draw() for _ in range(count)] if self._redrawn else []
        stride = self._secret.randrange(1, max(2, _NOISE_SLACK // (2 * count)))
        offset = self._secret.randrange(max(1, _NOISE_SLACK - stride * count))
        return InputRecipe(bases, offset, stride, {} if self.whole_draws else self._draw_noise(), drawn)

    def _comes_again(self, index: int) -> bool:
        """Whether an input, or its zeros, would come again: what follows from them could be kept."""
        stack = self._stacks[index]
        if stack is None or stack.numel() == 0:
            return False
        telling = (stack == 0) if self._noisy[index] else stack
        if self._noisy[index] and float(telling[0].float().mean()) < _FEW_ZEROS:
            return False
        return not all(torch.equal(telling[0], other) for other in telling[1:])

    def _draw(self) -> dict[int, torch.Tensor]:
        leaves = self._fresh().leaves
        return {index: leaves[index] for index in self._redrawn}

    def _draw_noise(self) -> dict[torch.dtype, torch.Tensor]:
        """Factors for one batch: who worked out an earlier batch's knows nothing of this one's."""
        noise = {}
        for dtype, device in self._floating.items():
            # Of its own: what problems do with torch's generators, and which seeds are disclosed, is known.
            generator = torch.Generator(device).manual_seed(self._secret.getrandbits(48))
            length = self._longest + _NOISE_SLACK + _LEAF_SHIFT * len(self._stacks)
            noise[dtype] = self._starts.factors((length,), generator, device).to(dtype)
        return noise

    def publish(self, memory: torch.Tensor, slots: list[Slot], recipe: InputRecipe) -> None:
        """Write a batch's inputs into a side's shared memory."""
        for index, slot in enumerate(slots):
            places = stacked(memory, slot, 0, recipe.count)
            noisy = self._noisy[index] and not self.whole_draws
            for part in _parts(recipe.count, places[0].numel()):
                sources = self._sources(index, recipe.bases[part], recipe.drawn[part])
                if noisy:
                    torch.mul(sources, self._factors(index, sources, part.start, recipe), out=places[part])
                else:
                    places[part].copy_(sources)

    def _sources(self, index: int, bases: torch.Tensor, drawn: list[dict[int, torch.Tensor]]) -> torch.Tensor:
        """What an input of some calls starts from, shape [calls, *shape]."""
        if index in self._redrawn:
            leaves = [leaves[index] for leaves in drawn]
            return torch.stack(leaves) if len(leaves) > 1 else leaves[0][None]
        stack = self._stacks[index]
        if stack is None:
            raise RuntimeError("inputs of varying shape have no stack")
        return _picked(stack, bases)

    def _factors(self, index: int, like: torch.Tensor, first: int, recipe: InputRecipe) -> torch.Tensor:
        """What an input of calls from the `first` on is multiplied by, shape [calls, *shape]."""
        count, numel = len(like), like[0].numel()
        begin = recipe.offset + first * recipe.stride + index * _LEAF_SHIFT
        factors = recipe.noise[like.dtype].as_strided((count, numel), (recipe.stride, 1), begin)
        if numel < FEWEST_SCATTERED:
            factors = factors.abs().clamp(max=self._starts.between[1])
        factors = factors.view(like.shape)
        keep = self._keepers[index]
        return factors if keep is None else keep(factors)

    def withdraw(self, memory: torch.Tensor, slots: list[Slot], recipe: InputRecipe) -> None:
        """Put other draws in a batch's place: as valid, since a warm-up on garbage could index anything."""
        others = (recipe.bases + 1) % self._draws
        for slot, stack in zip(slots, self._stacks, strict=True):
            if stack is not None:
                places = stacked(memory, slot, 0, recipe.count)
                for part in _parts(recipe.count, places[0].numel()):
                    places[part].copy_(_picked(stack, others[part]))

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
                    limits=self._bounds(recipe, part, self._precisions[leaf]),
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
        if self._redrawn:
            # Not known group by group; more than the worst would leave room for narrower arithmetic.
            return scales.amax().expand_as(chosen)
        # The noise moves elements across thresholds: a group of zeros in the draw need not be one here.
        return torch.maximum(chosen, scales.square().mean(-1).sqrt().amax())

    def _bounds(self, recipe: InputRecipe, part: slice, dtype: torch.dtype) -> torch.Tensor:
        """How many times its scale two answers to each call may be apart, shape [calls]; both sides err."""
        chosen = recipe.bases[part].tolist()
        limits = [self._limit if self.whole_draws else self._limits[base] for base in chosen]
        is_floating = dtype.is_floating_point
        bounds = [dtype_limit(most, dtype) + BASELINE_ERROR if is_floating else most for most in limits]
        return torch.tensor(bounds, device="cpu")


def _parts(count: int, numel: int) -> Iterator[slice]:
    """Calls that are made at once: many small ones, since each operation takes a host its time."""
    step = max(1, _AT_ONCE // max(1, numel))
    return (slice(begin, min(begin + step, count)) for begin in range(0, count, step))


def _picked(stack: torch.Tensor, bases: torch.Tensor) -> torch.Tensor:
    """Some draws, shape [calls, *shape]; of one call not a copy."""
    return stack[bases.to(stack.device)] if len(bases) > 1 else stack[int(bases[0])][None]


def _precision(expected: list[Expected], leaf: int) -> torch.dtype:
    """The coarsest type whose roundings an output was seen to carry."""
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


def _alike(leaves: tuple[torch.Tensor, ...]) -> bool:
    return all(leaf.shape == leaves[0].shape and leaf.dtype == leaves[0].dtype for leaf in leaves)


def _known_scales(bases: list[Trial]) -> list[list[torch.Tensor]]:
    """Per output leaf, the error scales of those draws that have one."""
    columns = zip(*(trial.expected.scales for trial in bases), strict=True)
    return [[scale for scale in column if scale is not None] for column in columns]


def _known_shares(bases: list[Trial]) -> list[list[float]]:
    """Per output leaf, the largest scale of the draws' large groups relative to their size.

    Where few inputs stand out, as before an exponential, a call may have a larger group than any draw had.
    """
    return [
        [
            _share(scale, trial.expected.exact[leaf])
            for trial in bases
            if (scale := trial.expected.scales[leaf]) is not None
        ]
        for leaf in range(len(bases[0].expected.scales))
    ]


def _share(scale: torch.Tensor, exact: torch.Tensor) -> float:
    sizes = rms(finite_or_zero(grouped(exact)))
    # Small ones may be what is left where terms cancelled. Where all are equal, all are large.
    large = (sizes > 0) & (sizes >= NEARLY_MEAN * rms(sizes[None]))
    return float((scale[large] / sizes[large]).max()) if bool(large.any()) else 0.0
