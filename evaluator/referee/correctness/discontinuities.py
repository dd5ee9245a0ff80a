"""Outputs where rounding decides: finds the elements that flip, and bounds how many may in timed calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch

from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.groups import as_real, grouped

SINGLE_BITS: Final = 32

Perturbed = Callable[[float, int], list[torch.Tensor]]
"""Outputs of the reference whose inputs and parameters are perturbed by a roundoff, under a seed."""


@dataclass(frozen=True, slots=True)
class Values:
    """Values of some elements."""

    places: torch.Tensor
    """Flat."""
    values: torch.Tensor
    """In float64."""


@dataclass(frozen=True, slots=True)
class Discontinuities:
    """Elements of a floating leaf with several correct values: rounded on purpose, or the nearest of many."""

    others: list[Values]
    """Values of the reference on inputs a few roundoffs away, where they differ."""
    share: float
    """Share of the elements that have several."""
    most: int
    """Elements of one group that jump together, at most."""

    def nearest(self, exact: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
        """The exact values, each the nearest correct one to what an output has in its place."""
        found, have = exact.flatten().clone(), got.flatten()
        for other in self.others:
            here, there = found[other.places], have[other.places].double()
            is_nearer = ((there - other.values).abs() < (there - here).abs()) | (there == other.values)
            found[other.places] = torch.where(is_nearer, other.values, here)
        return found.view(exact.shape)


def look_for_ties(
    watched: Sequence[OutputWatch], moved: Iterable[list[torch.Tensor]], *, are_certain: bool = True
) -> None:
    """Mark whole numbers that differ in outputs for moved inputs.

    If ties `are_certain`, an output with too many of them is ambiguous.
    """
    found = {index: torch.zeros_like(leaf.exact, dtype=torch.bool) for index, leaf in _whole(watched)}
    for outputs in moved if found else ():
        for index, leaf in _whole(watched):
            if outputs[index].shape == leaf.exact.shape:
                found[index] |= as_real(outputs[index]) != leaf.exact
    for index, leaf in _whole(watched):
        leaf.note_ties(found[index], are_certain=are_certain)


def to_and_fro(perturbed: Perturbed, roundoff: float, draws: int) -> Iterator[list[torch.Tensor]]:
    """Outputs where inputs and parameters move by a roundoff, each time the other way."""
    return (perturbed(roundoff if draw % 2 else -roundoff, 1 + draw // 2) for draw in range(draws))


def _whole(watched: Sequence[OutputWatch]) -> list[tuple[int, OutputWatch]]:
    return [(index, leaf) for index, leaf in enumerate(watched) if leaf.scale is None]


def jumping_together(
    watched: Sequence[OutputWatch], perturbed: Perturbed, *, decides: bool, flips: Mapping[int, int]
) -> list[int]:
    """Perturb inputs and parameters by a few roundoffs and note where outputs change or jump.

    Returns, by output, the elements of one group that jump together; `flips` is known from other inputs of
    the same reference.
    """
    for draw in range(policy.MORE_TIE_DRAWS):
        if draw == policy.TIE_DRAWS and not any(leaf.has_changed for leaf in watched):
            break
        # To and fro by the same: one of the two exchanges what is equal.
        there = policy.TIE_ROUNDOFF if draw % 2 else -policy.TIE_ROUNDOFF
        for leaf, other in zip(watched, perturbed(there, 1 + draw // 2), strict=True):
            leaf.look(as_real(other))
    together = [max(leaf.most, flips.get(index, 0)) for index, leaf in enumerate(watched)]
    if decides:
        searches = range(1 + policy.MORE_TIE_DRAWS, 1 + policy.MORE_TIE_DRAWS + policy.FAR_DRAWS)
        for index, leaf in enumerate(watched):
            if leaf.can_jump and index not in flips:
                found = (_bisected(leaf, index, perturbed, draw) for draw in searches)
                together[index] = max(together[index], *found)
    return together


def look_again(watched: Sequence[OutputWatch], perturbed: Perturbed) -> None:
    """Perturb further, by twice as much: a few perturbations may by chance miss a near decision."""
    first = 1 + policy.MORE_TIE_DRAWS + policy.FAR_DRAWS + 1
    for draw in range(policy.LATE_TIE_DRAWS):
        there = policy.LATE_TIE_ROUNDOFF if draw % 2 else -policy.LATE_TIE_ROUNDOFF
        for leaf, other in zip(watched, perturbed(there, first + draw // 2), strict=True):
            leaf.look(as_real(other), abs(there))


def _bisected(leaf: OutputWatch, index: int, perturbed: Perturbed, draw: int) -> int:
    """Bisect a large perturbation down to a few roundoffs; return how many of a group jump together there.

    A smooth change halves with the perturbation, and is soon too little for a jump; 0 then.
    """

    def moved(roundoff: float) -> torch.Tensor:
        return as_real(perturbed(roundoff, draw)[index])

    near, far, here, there = 0.0, policy.FAR_ROUNDOFF, leaf.exact, moved(policy.FAR_ROUNDOFF)
    while True:
        places, most = leaf.jumped(here, there, far - near)
        if most == 0 or far - near < policy.TIE_ROUNDOFF:
            return most
        middle = (near + far) / 2
        between = moved(middle)
        one = places[0]
        first, second = ((end.flatten()[one] - between.flatten()[one]).abs() for end in (here, there))
        if bool(first >= second):
            far, there = middle, between
        else:
            near, here = middle, between


@dataclass(slots=True)
class OutputWatch:
    """Accumulates what happens to one output tensor while inputs are perturbed."""

    exact: torch.Tensor
    scale: torch.Tensor | None
    dtype: torch.dtype
    limit: float
    """Norm-wise limit of floating outputs."""
    most: int = 0
    """Elements of a group that jumped together."""
    _too_many: bool = field(default=False, init=False)
    _ties_often: bool = field(default=False, init=False)
    _others: list[Values] = field(default_factory=list, init=False)
    _changed: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        self._changed = torch.zeros_like(self.exact, dtype=torch.bool)

    @property
    def has_changed(self) -> bool:
        """Something changed, and not too much."""
        return not self._too_many and bool(self._changed.any())

    @property
    def is_ambiguous(self) -> bool:
        """Many whole numbers hang on rounding."""
        return self.scale is None and (self._ties_often or _share(self._changed) > policy.MAX_TIES)

    @property
    def can_jump(self) -> bool:
        """The output is floating and does not jump nearly everywhere."""
        return self.scale is not None and not self._too_many and self.exact.numel() > 0

    def note_ties(self, mask: torch.Tensor, *, are_certain: bool) -> None:
        """Note whole numbers that tie, unless too many do; if `are_certain`, the output is ambiguous then."""
        both = self._changed | mask
        if _share(both) <= policy.MAX_TIES:
            self._changed = both
        else:
            self._ties_often |= are_certain

    def look(self, other: torch.Tensor, distance: float = policy.TIE_ROUNDOFF) -> None:
        """Note where an output differs over a distance: whole numbers at all, floating ones by a jump."""
        if other.shape != self.exact.shape or other.numel() == 0 or self._too_many:
            return
        if self.scale is None:
            self._changed |= other != self.exact
            return
        places, most = self.jumped(self.exact, other, distance)
        self._too_many = places.numel() > most_jumping(other.numel())
        self.most = max(self.most, most)
        if places.numel() and not self._too_many:
            self._changed.view(-1)[places] = True
            self._others.append(Values(places, other.flatten()[places].double()))

    def jumped(self, here: torch.Tensor, there: torch.Tensor, distance: float) -> tuple[torch.Tensor, int]:
        """Flat places that differ far more than smoothly over a distance, and how many of a group do.

        Between what is finite and what is not, any difference is far.
        """
        if self.scale is None or here.shape != there.shape:
            return torch.empty(0, dtype=torch.int64), 0
        rows, values = grouped(here), grouped(there)
        step = max(1, policy.CHUNK_ELEMENTS // rows.shape[1])
        is_single = torch.finfo(self.dtype).bits >= SINGLE_BITS
        nearer = policy.FAR_JUMP * distance / policy.FAR_ROUNDOFF
        share = max(policy.TIE_JUMP, nearer) if is_single else policy.FAR_JUMP
        least = share * self.limit
        eps = torch.finfo(self.dtype).eps / 2
        found, most = [], 0
        for begin in range(0, rows.shape[0], step):
            part, have = rows[begin : begin + step], values[begin : begin + step]
            error, unit = (have - part).abs(), self.scale[begin : begin + step].unsqueeze(1)
            smooth = least * (unit + eps * part.abs())
            far = torch.where(error.isfinite(), error > smooth, part.isfinite() != have.isfinite())
            most = max(most, int(far.sum(1).max()))
            found.append(far.flatten().nonzero().flatten() + begin * rows.shape[1])
        return torch.cat(found), most

    def unsettled(self) -> torch.Tensor | None:
        """Mark whole numbers that changed; None if most did."""
        return None if self.scale is not None or _share(self._changed) > policy.MAX_TIES else self._changed

    def jumps(self, together: int) -> Discontinuities | None:
        """Discontinuities of floating values; None where none or most jumped."""
        if not self.can_jump or together == 0:
            return None
        share, elements = float(self._changed.float().mean()), self.exact.numel()
        is_small = most_jumping(elements) > policy.MAX_UNSETTLED * elements
        is_told = is_small or share <= policy.MAX_UNSETTLED
        return Discontinuities(self._others, share, together) if is_told else None


def _share(mask: torch.Tensor) -> float:
    return int(mask.count_nonzero()) / max(1, mask.numel())


def most_jumping(elements: int) -> float:
    """Elements of an output that may jump at once without counting as nearly everywhere."""
    return max(policy.MAX_UNSETTLED * elements, min(policy.FEW_FLIPS, policy.FEW_FLIPS_SHARE * elements))


@dataclass(frozen=True, slots=True)
class FlippedElements:
    """Elements of an output that flipped, of those compared."""

    flipped: int = 0
    compared: int = 0

    def __add__(self, other: FlippedElements) -> FlippedElements:
        return FlippedElements(self.flipped + other.flipped, self.compared + other.compared)


@dataclass(frozen=True, slots=True)
class FlipTolerance:
    """Share of an output that may flip in timed calls, since rounding decides."""

    share: float = 0.0
    """Share of the elements; of whole numbers, of those that are not the most frequent one."""
    together: int = 0
    """Floating elements that one decision changes at once; 0 where none jump."""

    def allows(self, found: FlippedElements, earlier: FlippedElements) -> bool:
        """Return whether the flips of a call, and all since timing began, stay within the tolerance."""
        total, least = earlier + found, policy.FLIP_LEEWAY * self.together
        return found.flipped <= max(least, self.share * found.compared) and (
            total.flipped <= max(least, policy.MAX_FLIPPED * total.compared)
        )


def flipped(difference: torch.Tensor, most: torch.Tensor) -> torch.Tensor:
    """Mask of elements [calls, groups, columns] off by more than a peak; groups may err by `most`."""
    # In a short group a few that jump by less than a peak are too much for all of it.
    peak = min(policy.PEAK_FACTOR, max(1.0, difference.shape[-1] ** 0.5 / policy.FLIP_PEAK))
    mask: torch.Tensor = difference.abs() > peak * most.unsqueeze(-1)
    return mask


def uncommon(values: torch.Tensor) -> int:
    """Elements that differ from the most frequent value: in a sparse mask all zeros are nearly correct."""
    usual = values.flatten()[: policy.USUAL_VALUE_SAMPLE].to(torch.int64).mode().values
    return int((values != usual).count_nonzero())
