"""Parameters and buffers that are the same under every seed: a candidate could take them for granted.

A gate of zero, for example, hides a branch. So in one of the two weight draws they hold other values, which
the candidate receives by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import torch
from torch import nn

from kernelwright.evaluator.ipc.model_init import move_constants
from kernelwright.evaluator.ipc.model_state import named_state
from kernelwright.evaluator.referee.reference.effects import is_comparable


@dataclass(slots=True)
class FixedState:
    """Parameters and buffers that no seed varies, and how they are varied nevertheless."""

    values: dict[str, torch.Tensor]
    kept: set[str] = field(default_factory=set)
    """Names that keep their values, because outputs are not finite otherwise."""
    moved: set[str] = field(default_factory=set)
    """Names perturbed after construction; the rest are perturbed during it."""

    @classmethod
    def of(cls, one: nn.Module, other: nn.Module) -> FixedState:
        """Compare models of two seeds."""
        theirs = named_state(other)
        held = {name: tensor.detach() for name, tensor in named_state(one).items() if name in theirs}
        return cls({name: tensor for name, tensor in held.items() if _equal(tensor, theirs[name])})

    def move(self, model: nn.Module, seed: int) -> None:
        """Add noise to the tensors of a model that its construction left constant."""
        values = {name: value for name, value in self.values.items() if name not in self.kept}
        self.moved.update(move_constants(model, values, seed))

    def varied(self, make: Callable[[], nn.Module], works: Callable[[nn.Module], bool]) -> nn.Module | None:
        """Make a varied model that works; None where there is none.

        A tensor keeps its original value where every variation of it makes the output non-finite.
        """
        model = make()
        if works(model):
            return model
        tried = sorted(self.moved)
        self.kept.update(tried)
        for name in tried:
            self.kept.remove(name)
            if not works(make()):
                self.kept.add(name)
        model = make()
        return model if works(model) else None

    def unvaried(self, varied: nn.Module, changing: Collection[str]) -> list[str]:
        """Names of the tensors that neither a varied model nor its calls change."""
        held = named_state(varied)
        same = [name for name, value in self.values.items() if _equal(held[name], value)]
        return [name for name in same if name not in changing]

    def of_model(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """The moved tensors of a varied model, by name."""
        held = named_state(model)
        return {name: held[name].detach() for name in sorted(self.moved - self.kept)}


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not (is_comparable(one) and is_comparable(other)):
        return False
    return one.shape == other.shape and torch.equal(one, other)
