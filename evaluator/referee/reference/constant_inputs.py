"""Inputs that are the same in every draw, and other values that they may hold.

A mask of ones, a state of zeros, full lengths or positions in order could be taken for granted. So they are
varied wherever the reference stays finite: numbers in every draw, since that changes no work; masks, lengths
and orders in trials of their own, since a kernel may well skip what they leave out. There, either a large
share of all their elements changes or a single one: who looks at a part of a mask finds it as it always was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from kernelwright.evaluator.referee.reference import policy
from kernelwright.evaluator.referee.reference.input_structure import variable

Variation = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def variations(leaf: torch.Tensor) -> tuple[Variation, ...]:
    """Functions that give an input other values of its kind, the most telling first."""
    if leaf.numel() == 0 or leaf.is_complex() or (leaf.is_floating_point() and leaf.element_size() == 1):
        return ()
    first = leaf.flatten()[0]
    is_uniform = bool((leaf == first).all())
    if is_uniform and not bool(torch.isfinite(first)):
        return ()
    if leaf.is_floating_point():
        return _of_numbers(leaf, is_uniform=is_uniform)
    if is_uniform:
        is_flag = leaf.dtype == torch.bool or int(first) == 1
        return (_flipped,) if is_flag and leaf.numel() > 1 else (_shortened,) if int(first) > 1 else ()
    if _is_triangular(leaf):
        return (_flipped_below,)
    steps = leaf.flatten().diff() if leaf.dtype != torch.bool else leaf.new_zeros(1)
    if len(steps) >= policy.FEWEST_POSITIONS and bool((steps == 1).all()):
        return (_permuted,)
    rows = leaf.diff(dim=-1) if leaf.dim() > 1 and leaf.dtype != torch.bool else leaf.new_zeros(1)
    return (_permuted_rows,) if rows.shape[-1] >= policy.FEWEST_POSITIONS and bool((rows == 1).all()) else ()


def _of_numbers(leaf: torch.Tensor, *, is_uniform: bool) -> tuple[Variation, ...]:
    if is_uniform:
        first = float(leaf.flatten()[0])
        return (_noise, _positive_noise) if first == 0 else (_thinned, _spread) if first == 1 else (_spread,)
    if bool(((leaf == 0) | (leaf == -torch.inf)).all()):
        return (_masked_further,)
    if _is_triangular(leaf):
        return (_flipped_below,)
    steps = leaf.diff(dim=-1) if leaf.dim() else leaf
    is_table = not variable(leaf) and bool(((steps >= 0).all() | (steps <= 0).all()) & steps.any())
    return (_jittered,) if is_table and bool(leaf.isfinite().all()) else ()


@dataclass(slots=True)
class ConstantInputs:
    """Constant inputs of a problem by their place, and how each is varied."""

    found: tuple[int, ...] = ()
    """All of them, but for those that noise varies anyway."""
    chosen: dict[int, Variation] = field(default_factory=dict)
    """Variations on which the reference stays finite."""

    @classmethod
    def of(cls, first: Sequence[torch.Tensor], draw: Callable[[], Sequence[torch.Tensor]]) -> ConstantInputs:
        """Compare the inputs of several draws; none is drawn where all can vary."""
        found = [index for index, leaf in enumerate(first) if not variable(leaf)]
        for _ in range(policy.CONSTANT_DRAWS if found else 0):
            leaves = draw()
            found = [index for index in found if torch.equal(first[index], leaves[index])]
        return cls(tuple(found))

    def choose(self, leaves: Sequence[torch.Tensor], works: Callable[[list[torch.Tensor]], bool]) -> None:
        """Take the first variation of each input that `works`, together with those chosen before it."""
        options = {index: variations(leaves[index]) for index in self.found}
        best = {index: each[0] for index, each in options.items() if each}
        generator = _generator(leaves, variation_seed(0, sparse=False))
        if best and works(_apply(best, leaves, generator)):
            self.chosen = best
            return
        for index, each in options.items():
            for option in each:
                if works(_apply({**self.chosen, index: option}, leaves, generator)):
                    self.chosen[index] = option
                    break

    @property
    def unvaried(self) -> tuple[int, ...]:
        """Places of the constant inputs that no variation fits."""
        return tuple(index for index in self.found if index not in self.chosen)

    def vary_values(self, leaves: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
        """Vary the numbers of a draw's inputs where that leaves the amount of work unchanged."""
        preserving = {
            index: _WORK_PRESERVING[each] for index, each in self.chosen.items() if each in _WORK_PRESERVING
        }
        return _apply(preserving, leaves, _generator(leaves, seed))

    def vary_all(self, leaves: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
        """Apply all variations to a draw's inputs; under a sparse seed, one element of what changes work."""
        varied, generator = self._varied(seed), _generator(leaves, seed)
        return _apply({index: self.chosen[index] for index in varied}, leaves, generator)

    def structural_variations(self, leaves: Sequence[torch.Tensor], seed: int) -> dict[int, torch.Tensor]:
        """Other values, by place, of inputs whose variation changes the amount of work; of one if sparse."""
        generator = _generator(leaves, seed)
        return {
            index: self.chosen[index](leaves[index], generator)
            for index in self._varied(seed)
            if self.chosen[index] not in _WORK_PRESERVING
        }

    def _varied(self, seed: int) -> list[int]:
        """Places that a seed varies: all, or of those that change the amount of work a single one."""
        structural = [index for index, each in self.chosen.items() if each not in _WORK_PRESERVING]
        if not (structural and _is_sparse(seed)):
            return list(self.chosen)
        kept = structural[seed // 2 % len(structural)]
        return [index for index in self.chosen if index == kept or index not in structural]


def _apply(
    chosen: dict[int, Variation], leaves: Sequence[torch.Tensor], generator: torch.Generator
) -> list[torch.Tensor]:
    return [
        chosen[index](leaf, generator).to(leaf.dtype) if index in chosen else leaf
        for index, leaf in enumerate(leaves)
    ]


def variation_seed(secret: int, *, sparse: bool) -> int:
    """A seed under which one element of masks, lengths and orders changes, or a large share of them."""
    return 2 * secret + sparse


def _is_sparse(seed: int) -> bool:
    return seed % 2 == 1


def _one(leaf: torch.Tensor, generator: torch.Generator, allowed: torch.Tensor) -> torch.Tensor:
    """Mark one of the allowed elements, at a random place."""
    scores = torch.where(allowed, _random(leaf, generator), -1.0).flatten()
    chosen = torch.zeros_like(scores, dtype=torch.bool)
    chosen[scores.argmax()] = True
    return chosen.view(leaf.shape) & allowed


def _generator(leaves: Sequence[torch.Tensor], seed: int) -> torch.Generator:
    device = leaves[0].device if leaves else torch.device("cpu")
    return torch.Generator(device).manual_seed(seed)


def _random(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(leaf.shape, generator=generator, device=leaf.device)


def _noise(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(leaf.shape, generator=generator, device=leaf.device)


def _positive_noise(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return _random(leaf, generator).add_(0.01)


def _spread(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return leaf * (0.5 + _random(leaf, generator)).to(leaf.dtype)


def _thinned(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Ones may be factors or a mask: spread, and a share of them zero."""
    return torch.where(_dropped(leaf, generator), 0.0, _spread(leaf, generator))


def _dropped(
    leaf: torch.Tensor, generator: torch.Generator, among: torch.Tensor | None = None
) -> torch.Tensor:
    """A random share of the elements, or one; of each row not the first, nor that on a square's diagonal.

    Beside a causal mask of the model's own, no row would be left with nothing. Only elements `among` which to
    choose are chosen.
    """
    if leaf.dim() == 0:
        return torch.zeros_like(leaf, dtype=torch.bool)
    allowed = torch.ones_like(leaf, dtype=torch.bool) if among is None else among.clone()
    allowed[..., 0] = False
    if leaf.dim() > 1 and leaf.shape[-1] == leaf.shape[-2]:
        allowed.diagonal(dim1=-2, dim2=-1).fill_(False)
    if _is_sparse(generator.initial_seed()):
        return _one(leaf, generator, allowed)
    fewest, most = policy.MASKED_SHARES
    share = fewest + (most - fewest) * torch.rand((), generator=generator, device=leaf.device)
    return allowed & (_random(leaf, generator) < share)


def _flipped(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Flags, all true or all false, of which a share are the other."""
    return torch.where(_dropped(leaf, generator), (leaf == 0).to(leaf.dtype), leaf)


def _flipped_below(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A causal mask in which further places below the diagonal are masked: none above becomes free."""
    below = _dropped(leaf, generator, torch.ones_like(leaf, dtype=torch.bool).tril(-1))
    return torch.where(below, (leaf == 0).to(leaf.dtype), leaf)


def _masked_further(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """An additive mask of zeros and minus infinity with more of the latter."""
    return torch.where(_dropped(leaf, generator, leaf == 0), -torch.inf, leaf)


def _shortened(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Lengths from one to the full one, of all or of one."""
    if not _is_sparse(generator.initial_seed()):
        return (_random(leaf, generator) * leaf).long().clamp_(max=leaf.max() - 1) + 1
    shorter = (_random(leaf, generator) * (leaf - 1)).long() + 1
    return torch.where(_one(leaf, generator, torch.ones_like(leaf, dtype=torch.bool)), shorter, leaf)


def _permuted(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return leaf.flatten()[_order(leaf.flatten(), generator)].view(leaf.shape)


def _permuted_rows(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return leaf.gather(-1, _order(leaf, generator))


def _order(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Places of each row in another order, or with one of them after the next."""
    if not _is_sparse(generator.initial_seed()):
        return _random(leaf, generator).argsort(-1)
    order = torch.arange(leaf.shape[-1], device=leaf.device)
    first = int(torch.randint(0, leaf.shape[-1] - 1, (), generator=generator, device=leaf.device))
    order[first], order[first + 1] = first + 1, first
    return order.expand(leaf.shape)


def _jittered(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Numbers in order, each moved by less than half of the way to the next."""
    steps = leaf.diff(dim=-1)
    room = torch.minimum(steps[..., :-1].abs(), steps[..., 1:].abs()) * 0.4
    moved = leaf.clone()
    moved[..., 1:-1] += room * (2 * _random(room, generator) - 1).to(leaf.dtype)
    return moved


def _is_triangular(leaf: torch.Tensor) -> bool:
    """Check for a causal mask of zeros and ones, or of their opposites."""
    if leaf.dim() < 2 or leaf.shape[-1] != leaf.shape[-2] or leaf.shape[-1] < policy.FEWEST_POSITIONS:
        return False
    if not bool(((leaf == 0) | (leaf == 1)).all()):
        return False
    below = torch.ones_like(leaf, dtype=torch.bool).tril()
    return torch.equal(leaf != 0, below) or torch.equal(leaf == 0, below)


_WORK_PRESERVING: dict[Variation, Variation] = {
    _noise: _noise,
    _positive_noise: _positive_noise,
    _spread: _spread,
    _thinned: _spread,
}
"""The part of each variation that leaves the amount of work unchanged; every draw has it."""
