"""Parameters and buffers whose initial values a candidate could take for granted, and other values for them.

A gate of zero hides a branch, and experts that begin alike are one. So in one of the two weight draws
constants hold other values, and weights with a structure are moved a little. Constants that construction
makes are moved there, alike in both processes, the rest afterwards; candidates receive that by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import torch
from torch import nn

from kernelwright.evaluator.ipc.model_init import move_constants
from kernelwright.evaluator.ipc.model_state import named_state
from kernelwright.evaluator.referee.reference.effects import are_equal, equal_outputs
from kernelwright.evaluator.referee.reference.weight_structure import add_noise, structured, takes_noise


@dataclass(slots=True)
class FixedState:
    """Parameters and buffers that no seed varies, and how these and what is learned are varied."""

    values: dict[str, torch.Tensor]
    """Those that are the same under every seed."""
    kept: set[str] = field(default_factory=set)
    """Names that keep their values, because outputs are not finite otherwise."""
    moved: set[str] = field(default_factory=set)
    """Names moved after construction."""
    made_otherwise: set[str] = field(default_factory=set)
    """Names that construction itself makes other values for."""
    at_construction: bool = True
    """True where constants are moved during construction, as far as it makes them."""
    _secret: int = 0

    @classmethod
    def of(cls, one: nn.Module, other: nn.Module) -> FixedState:
        """Compare models of two seeds."""
        theirs = named_state(other)
        held = {name: tensor.detach() for name, tensor in named_state(one).items() if name in theirs}
        return cls({name: tensor for name, tensor in held.items() if are_equal(tensor, theirs[name])})

    def keep_secret(self, secret: int) -> None:
        """Draw from here on noise that the disclosed seed of a model does not tell."""
        self._secret = secret

    def move(self, model: nn.Module, seed: int) -> None:
        """Move what construction left constant, and learned parameters; put back what has to stay."""
        held = named_state(model)
        made = {name for name, value in self.values.items() if not are_equal(held[name], value)}
        self.made_otherwise |= made
        with torch.no_grad():
            for name in made & self.kept:
                held[name].copy_(self.values[name])
        values = {name: value for name, value in self.values.items() if name not in self.kept | made}
        moved = set(move_constants(model, values, self._seed(seed, "")))
        weights = {
            name: tensor
            for name, tensor in held.items()
            if isinstance(tensor, nn.Parameter)
            and (tensor.requires_grad or name not in self.values)
            and name not in made | moved
            and takes_noise(tensor)
        }
        for name in structured(weights) - self.kept:
            add_noise(weights[name], self._seed(seed, name))
            moved.add(name)
        self.moved |= moved

    def _seed(self, seed: int, name: str) -> int:
        digest = hashlib.sha256(f"{self._secret}:{seed}:{name}".encode()).digest()
        return int.from_bytes(digest[:6], "little")

    def varied(self, make: Callable[[], nn.Module], works: Callable[[nn.Module], bool]) -> nn.Module | None:
        """Make a varied model that works; None where there is none.

        A tensor keeps its original value where every variation of it makes the output non-finite.
        """
        model = make()
        if works(model):
            return model
        for self.at_construction in (True, False):
            tried = sorted(self.moved | self.made_otherwise)
            self.kept.update(tried)
            if works(make()):
                self._release(tried, lambda: works(make()))
                model = make()
                return model if works(model) else None
        return None

    def _release(self, names: list[str], works: Callable[[], bool]) -> None:
        """Let names vary that were kept; halve them until those are found that must not."""
        self.kept.difference_update(names)
        if works():
            return
        self.kept.update(names)
        if len(names) > 1:
            middle = len(names) // 2
            self._release(names[:middle], works)
            self._release(names[middle:], works)

    def unvaried(self, varied: nn.Module, changing: Collection[str]) -> list[str]:
        """Names of what varied models keep although it could vary, or no seed, model or call changes."""
        held = named_state(varied)
        same = [name for name, value in self.values.items() if are_equal(held[name], value)]
        same += sorted(self.kept - self.values.keys())
        return [name for name in same if name not in changing]

    def of_model(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """Tensors of a varied model that were changed after its construction, by name."""
        held = named_state(model)
        changed = (self.moved - self.kept) | (self.made_otherwise & self.kept)
        return {name: held[name].detach() for name in sorted(changed)}


def have_equal_state(*models: nn.Module) -> bool:
    """Return whether two models hold the same values."""
    return equal_outputs(*([*model.parameters(), *model.buffers()] for model in models))
