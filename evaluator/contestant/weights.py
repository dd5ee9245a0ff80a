"""Making two constructions of a model agree: seeds, parameters off their defaults, state dicts.

A candidate that drops `weight * x + bias` because a fresh LayerNorm has ones and zeros there is wrong for
every trained model. Under `varied_constants` whatever would be initialised to a constant gets noise instead,
keyed by shape, constant and order, so that reference and candidate agree without sharing a random stream.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

_AMPLITUDE = 0.5
_NUMPY_SEEDS = 1 << 32


def seed_everything(seed: int) -> None:
    """Seed the generators that are drawn from unnamed: torch's, Python's, and numpy's if it is there."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % _NUMPY_SEEDS)


class _Noise:
    """Draws the k-th noise for a shape and constant, the same in every process."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn: Counter[tuple[tuple[int, ...], float]] = Counter()

    def vary(self, tensor: torch.Tensor) -> None:
        """Add noise to a floating tensor that holds one constant."""
        if not (tensor.is_floating_point() and tensor.numel()) or tensor.is_meta:
            return
        constant = float(tensor.detach().flatten()[0])
        key = (tuple(tensor.shape), constant)
        text = f"{self._seed}:{key}:{self._drawn[key]}"
        self._drawn[key] += 1
        digest = hashlib.sha256(text.encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
        noise = torch.rand(tuple(tensor.shape), generator=generator, dtype=torch.float32, device="cpu") - 0.5
        with torch.no_grad():
            tensor.copy_(constant + 2 * _AMPLITUDE * noise)


class _Variation:
    """Patches what fills parameters with constants, for as long as a construction takes."""

    def __init__(self, seed: int) -> None:
        self._noise = _Noise(seed)
        self._filled: dict[int, weakref.ref[torch.Tensor]] = {}
        self._patches: list[tuple[Any, str, Any]] = []

    def patch(self, owner: Any, names: tuple[str, ...], make: Callable[[Any], Any]) -> None:
        """Wrap functions of a module or class until `undo`."""
        for name in names:
            original = getattr(owner, name)
            self._patches.append((owner, name, original))
            setattr(owner, name, make(original))

    def undo(self) -> None:
        """Put everything back."""
        for owner, name, original in reversed(self._patches):
            setattr(owner, name, original)

    def initialiser(self, original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """`nn.init.ones_` and kin: a parameter is varied after it was filled."""

        def fill(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            original(tensor, *args, **kwargs)
            if isinstance(tensor, nn.Parameter):
                self._noise.vary(tensor)
            return tensor

        return fill

    def factory(self, original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """`torch.ones` and kin: the tensor is remembered in case it becomes a parameter."""

        def make(*args: Any, **kwargs: Any) -> torch.Tensor:
            tensor = original(*args, **kwargs)
            self._filled[id(tensor)] = weakref.ref(tensor)
            return tensor

        return make

    def parameter(self, original: Callable[..., nn.Parameter]) -> Callable[..., nn.Parameter]:
        """`nn.Parameter(torch.ones(n))`: varied as it is made."""

        def new(cls: Any, data: Any = None, requires_grad: bool = True) -> nn.Parameter:
            made = original(cls, data, requires_grad)
            remembered = self._filled.get(id(data))
            if remembered is not None and remembered() is data:
                self._noise.vary(made)
            return made

        return new


@contextlib.contextmanager
def varied_constants(seed: int) -> Iterator[None]:
    """While active, parameters filled by `nn.init` constants or `torch.ones` and kin get noise instead."""
    variation = _Variation(seed)
    factories = ("ones", "zeros", "full", "ones_like", "zeros_like", "full_like")
    with torch.device("cpu"):
        # Torch notes once, at first use, what obeys a device context: it must not note the patches.
        torch.empty(0)
    try:
        variation.patch(nn.init, ("ones_", "zeros_", "constant_"), variation.initialiser)
        variation.patch(torch, factories, variation.factory)
        variation.patch(nn.Parameter, ("__new__",), variation.parameter)
        yield
    finally:
        variation.undo()


def construct(model_class: Any, args: list[Any], kwargs: dict[str, Any], seed: int, *, vary: bool) -> Any:
    """Build a model under a disclosed seed; with `vary`, parameters are moved off their constants."""
    with varied_constants(seed) if vary else contextlib.nullcontext():
        seed_everything(seed)
        return model_class(*args, **kwargs)


def load_state(model: nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Load a reference's state by name, or, where names differ, by position among tensors of equal shapes.

    Raises:
        ValueError: the shapes do not line up, so nothing can be loaded.
    """
    own = dict(model.state_dict())
    if any(map(is_lazy, own.values())):
        # Shapes are decided on by what is loaded.
        model.load_state_dict(state)
        return
    if own.keys() != state.keys() or any(own[name].shape != state[name].shape for name in own):
        if [tensor.shape for tensor in own.values()] != [tensor.shape for tensor in state.values()]:
            raise ValueError("the parameters do not line up with the reference's, by name or by shape")
        state = dict(zip(own, state.values(), strict=True))
    model.load_state_dict(state)
