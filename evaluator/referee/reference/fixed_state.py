"""Parameters and buffers that are the same under every seed: a candidate could take them for granted.

A gate of zero, however it was written, hides a branch. So in one of the two weight draws they hold other
values, which a candidate is given by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from kernelwright.evaluator.ipc.model_init import move_constants
from kernelwright.evaluator.ipc.model_state import named_state


@dataclass(slots=True)
class FixedState:
    """Names and values of what no seed varies."""

    values: dict[str, torch.Tensor]
    kept: set[str] = field(default_factory=set)
    """Those that stay, as outputs are not finite without them."""
    moved: set[str] = field(default_factory=set)
    """Those that are moved after a model was constructed; others are while it is."""

    @classmethod
    def of(cls, one: nn.Module, other: nn.Module) -> FixedState:
        """Compare models of two seeds."""
        theirs = named_state(other)
        held = {name: tensor.detach() for name, tensor in named_state(one).items() if name in theirs}
        return cls({name: tensor for name, tensor in held.items() if _equal(tensor, theirs[name])})

    def move(self, model: nn.Module, seed: int) -> None:
        """Add noise to those of a model that its construction left constant."""
        values = {name: value for name, value in self.values.items() if name not in self.kept}
        self.moved.update(move_constants(model, values, seed))

    def varied(self, make: Callable[[], nn.Module], works: Callable[[nn.Module], bool]) -> nn.Module | None:
        """A varied model that works; of what was moved by value, that without which none does stays."""
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

    def stuck(self, varied: nn.Module, changing: Collection[str]) -> list[str]:
        """Names of what is the same in a varied model too, and does not change in its calls."""
        held = named_state(varied)
        same = [name for name, value in self.values.items() if _equal(held[name], value)]
        return [name for name in same if name not in changing]

    def of_model(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """The moved tensors of a varied model, by name."""
        held = named_state(model)
        return {name: held[name].detach() for name in sorted(self.moved - self.kept)}


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if is_lazy(one) or is_lazy(other) or one.layout is not torch.strided:
        return False
    return one.shape == other.shape and torch.equal(one, other)
