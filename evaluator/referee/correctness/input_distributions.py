"""Inputs other than a problem's own: variations of its draws, and what timed calls start from."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import torch

from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.groups import flat_chunks
from kernelwright.evaluator.referee.correctness.trial_cache import Trial
from kernelwright.evaluator.referee.reference.constant_inputs import Variation
from kernelwright.evaluator.referee.reference.input_structure import keeper, variable

_SECOND_TERM: Final = 1 << 14
"""Leading bit of the second of two bfloat16 terms, where that is as large as it gets."""
_THIRD_TERM: Final = 1 << 6
"""First bit that two bfloat16 terms lose."""
_AFTER_THIRD: Final = 7 * _THIRD_TERM >> 3
"""The three bits behind it, which become its opposite."""
_CACHED_ELEMENTS: Final = 1 << 15
"""Elements that a CPU works on at once: of more, each operation would wait for memory, and for torch's other
threads, whose waking takes ten times as long. Hardened products of 7 million elements took 7.5 ms of one core
so, and 7.6 to 21 ms of two in pieces of 2**17 to 2**19."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Trials that timed calls start from, and the factors on their inputs."""

    trials: list[Trial]
    between: tuple[float, float]
    """Elements are multiplied by secret factors of this size."""
    signed: bool
    """The factors have secret signs too."""
    spiked: int = 0
    """One in so many elements stands out, at secret places; 0 where none may."""
    shrinks: bool = False
    """As many others nearly vanish."""
    plain: Starts | None = None
    """Start of batches that keep the signs of a problem's own inputs, where these have one sign."""

    def factors(self, shape: Sequence[int], generator: torch.Generator, device: torch.device) -> torch.Tensor:
        """Secret float32 factors of elements.

        Those that stand out or nearly vanish keep bounds learned of an element, and sums over some of the
        elements, from holding for the next call.
        """
        count = math.prod(shape)
        smallest, largest = self.between
        drawn = _uniform(count, generator, device)
        for (piece,) in cached(drawn):
            if not self.signed:
                piece.abs_()
            piece.mul_(largest - smallest).add_(piece.sign(), alpha=smallest)
        if self.spiked and count >= policy.FEWEST_SCATTERED:
            wanted = max(1, count // self.spiked)
            places, sizes = _scattered(count, wanted, generator, device)
            lowest, highest = policy.SPIKES
            drawn[places] *= sizes.mul_(highest - lowest).add_(lowest)
            if self.shrinks:
                places, sizes = _scattered(count, wanted, generator, device)
                fewest, most = policy.SHRUNK_BITS
                drawn[places] *= sizes.mul_(fewest - most).sub_(fewest).exp2_()
        return drawn.view(shape)

    def scatter(self, values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """An input as timed calls are given it."""
        factors = self.factors(values.shape, generator, values.device)
        if values.numel() < policy.FEWEST_SCATTERED:
            factors = factors.abs()
        return values * factors.to(values.dtype)


def possible_starts(signed: Sequence[Trial], base: Trial) -> Iterator[Starts]:
    """Starts of one trial, the most telling first: a `signed` one, or else a problem's own draw."""
    spacing = row(base.arguments.varying)
    for start, (spiked, shrinks), between in product(
        [*signed, base],
        ((spacing, True), (spacing, False), (0, False)),
        # Around one first: smaller inputs alone would pass thresholds less often.
        (policy.AROUND, policy.BELOW),
    ):
        yield Starts([start], between, signed=start in signed, spiked=spiked, shrinks=shrinks)


def _uniform(count: int, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    """Numbers between -1 and 1, none of them 0, of 16 random bits each: drawing 32 takes much longer."""
    words = torch.empty(count // 4 + 1, dtype=torch.int64, device=device)
    words.random_(-(2**63), None, generator=generator)
    drawn = torch.empty(count, dtype=torch.float32, device=device)
    for piece, bits in cached(drawn, words.view(torch.int16)[:count]):
        piece.copy_(bits).add_(0.5).mul_(2.0**-15)
    return drawn


def _scattered(
    length: int, wanted: int, generator: torch.Generator, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Places below a length in rising order, and a number from 0 to 1 for each.

    A place that is drawn twice has one number: which of two writes comes last differs from time to time, and
    inputs that are drawn again must be the same.
    """
    places = torch.randint(length, (wanted,), generator=generator, device=device).sort().values
    numbers = torch.rand(wanted, generator=generator, device=device)
    return places, numbers[torch.searchsorted(places, places)]


def _zero_mean(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random signs: terms cancel along every dimension."""
    signs = (
        2 * torch.randint(0, 2, values.shape, generator=generator, dtype=torch.int8, device=values.device) - 1
    )
    return hardened(values * signs)


def hardened(values: torch.Tensor) -> torch.Tensor:
    """Float32 values whose mantissas lose most where they are cut to two bfloat16 terms, or to 16 bits.

    Beyond the bits of the first term and those of the second, which is as large as it gets, the rest is
    nearly half a unit, to be rounded up or down. Zeros and what is not finite stay; others move by less than
    one in 256.
    """
    if values.dtype != torch.float32:
        return values
    harder = values.clone(memory_format=torch.contiguous_format)
    harden(harder)
    return torch.where(values.isfinite() & (values != 0), harder, values)


def harden(values: torch.Tensor) -> None:
    """Harden dense float32 values in place; none may be zero or infinite."""
    for (bits,) in cached(values.view(torch.int32)):
        # Three bits opposite to the first one lost, 0.1000 or 0.0111 of a unit: 7 units of the last, or 8.
        eighth = bits.bitwise_right_shift(3).bitwise_and_(_THIRD_TERM >> 3)
        bits.bitwise_and_(~(_SECOND_TERM << 1 | _SECOND_TERM | _THIRD_TERM | _AFTER_THIRD))
        bits.add_(eighth).add_(_SECOND_TERM | _AFTER_THIRD)


def cached(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Pieces of tensors that stay in a CPU's cache from one operation to the next.

    On a GPU each launch counts, so there is one piece; so there is of tensors that differ in shape or are
    not contiguous.
    """
    shape = tensors[0].shape
    if all(one.device.type == "cpu" and one.is_contiguous() and one.shape == shape for one in tensors):
        yield from zip(*(torch.split(one.view(-1), _CACHED_ELEMENTS) for one in tensors), strict=True)
    else:
        yield tensors


def nearby(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values at a small random distance, of either sign."""
    return hardened(
        values * (1 + policy.NEARBY * _uniform(values.numel(), generator, values.device)).view(values.shape)
    )


def few_terms(longest: int, *, negligible: bool = True) -> Variation:
    """A variant that leaves a few elements of each reduction of this length, and next to nothing elsewhere.

    Zeros, unless the rest is `negligible` numbers.
    """

    def variant(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        drawn = torch.rand(values.shape, generator=generator, device=values.device)
        rest = torch.zeros_like(values)
        if negligible and values.dtype in policy.NEGLIGIBLE_BITS:
            fewest, most = policy.NEGLIGIBLE_BITS[values.dtype]
            bits = torch.rand(values.shape, generator=generator, device=values.device)
            rest = values * (-(fewest + (most - fewest) * bits)).exp2().to(values.dtype)
        return torch.where(drawn < min(1 / 2, policy.FEW_TERMS / longest), values, rest)

    return variant


def _large(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values 16 times as large; where there are two signs, each lasts, and no state decays as usual.

    They last along the last dimension in one half, along all others in the other. Of a few zeros each becomes
    another small number: two would be equal maxima beside negative ones, which no perturbation tells.
    """
    if values.ndim < 2 or not (values < 0).any():
        return values * 16

    def coins(*shape: int) -> torch.Tensor:
        return torch.randint(0, 2, shape, generator=generator, device=values.device, dtype=torch.bool)

    *leading, last = values.shape
    along_last, along_others = coins(*leading, 1), coins(*(1 for _ in leading), last)
    parted = next((number for number, size in enumerate(leading) if size > 1), 0)
    rows = torch.arange(leading[parted], device=values.device).view(-1, *(1 for _ in leading[parted:]))
    is_first = (rows < (leading[parted] + 1) // 2) ^ coins(1)
    lasting, is_zero = values.abs() * 16, values == 0
    if is_zero.any() and is_zero.float().mean() < policy.FEW_ZEROS:
        small = torch.rand(values.shape, generator=generator, device=values.device).to(values.dtype)
        lasting = torch.where(is_zero, small * lasting[~is_zero].min(), lasting)
    return torch.where(torch.where(is_first, along_others, along_last), -lasting, lasting)


def _sparse(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One element in sixteen stands out; the rest are smaller, each by another power of two.

    Were they alike, so would be their exponentials, and long sums of them would err in step.
    """
    kept = torch.rand(values.shape, generator=generator, device=values.device) < 1 / 16
    bits = 8 * torch.rand(values.shape, generator=generator, device=values.device)
    return torch.where(kept, values, values * (-bits).exp2().to(values.dtype))


def _outliers(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return _poke(values, generator, count=max(1, values.numel() // 1024), factor=8.0)


def _poke(values: torch.Tensor, generator: torch.Generator, *, count: int, factor: float) -> torch.Tensor:
    """A copy with a few elements, at secret places, far out: no two alike, and zeros stay."""
    changed = values.clone().contiguous()
    flat = changed.view(-1)
    places, more = _scattered(flat.numel(), min(count, flat.numel()), generator, values.device)
    reach = float(values.abs().max()) or 1.0
    flat[places] = torch.where(flat[places] == 0, 0.0, (factor * reach * (1 + more)).to(values.dtype))
    return changed.as_strided(values.shape, values.stride()) if values.is_contiguous() else changed


VARIANTS: dict[str, Variation] = {
    "near_duplicate": functools.partial(_poke, count=3, factor=4.0),
    "zero_mean": _zero_mean,
    "sparse": _sparse,
    "large": _large,
    "tiny": lambda values, generator: values * 2.0**-12,
    "outliers": _outliers,
}


CONSTANT_INPUTS: Final = "constant_inputs"
AS_GIVEN: Final = "as_given"
LARGER_WEIGHTS: Final = "larger_weights"

VARIED: Final = {
    CONSTANT_INPUTS: "masks, lengths, orders and numbers that are the same in every draw are others here",
    AS_GIVEN: "the problem's own, with the zeros and ones that are the same in every draw",
    "near_duplicate": "the problem's own with three elements far out",
    "zero_mean": "the problem's own with random signs",
    "sparse": "the problem's own with most elements much smaller",
    "large": "the problem's own, 16 times as large, with signs that last along rows or columns",
    "tiny": "the problem's own, 4096 times smaller",
    "outliers": "the problem's own with some elements far out",
    "few_terms": "the problem's own with next to nothing for all but a few terms of each sum",
    LARGER_WEIGHTS: "the problem's own; random weights are drawn farther from their means than it draws them",
    "nearby": "the problem's own with random signs, moved by less than one in 256",
}
"""A description of each variant, for people; the reference stays finite on it."""


def varied(variant: Variation, leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """An input varied, as far as its structure lets it; its type stays."""
    if not variable(leaf):
        return leaf
    return keeper(leaf)(variant(leaf, generator).to(leaf.dtype))


def has_one_sign(leaves: Iterable[torch.Tensor]) -> bool:
    """Return whether an input that may be given signs mostly has one: signs change the work of some kernels.

    Of what an activation leaves a little is negative, and of a shifted normal draw a few elements are.
    """
    return any(
        variable(leaf) and leaf.numel() >= policy.FEWEST_SCATTERED and _rarer_share(leaf) <= policy.RARER_SIGN
        for leaf in leaves
    )


def _rarer_share(leaf: torch.Tensor) -> float:
    """Share of the rarer sign in the sum of absolute values."""
    above = below = 0.0
    for part in flat_chunks(leaf):
        above += float(part.clamp_min(0).sum(dtype=torch.float64))
        below -= float(part.clamp_max(0).sum(dtype=torch.float64))
    return min(above, below) / max(above + below, policy.SMALLEST_SCALE)


def row(leaves: Iterable[torch.Tensor]) -> int:
    """Elements one of which may stand out: about those of the longest row of an input."""
    fewest, most = policy.SPIKE_SPACING
    longest = max((leaf.shape[-1] for leaf in leaves if leaf.dim() and variable(leaf)), default=fewest)
    return min(max(longest, fewest), most)
