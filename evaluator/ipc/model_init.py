"""Making two constructions of a model agree: seeds, parameters off their defaults, state dicts.

A candidate that drops `weight * x + bias` because a fresh LayerNorm has ones and zeros there is wrong for
every trained model, and so is one that leaves out a branch whose learned factor starts at a millionth. Under
`varied_constants` whatever would be initialised to a constant gets noise instead, however the constant was
made, and so do the running statistics of norms; what is in order or repeats itself is moved as far as it
stays so or keeps its signs. Noise is keyed by shape, constant and order, so that reference and candidate
agree without sharing a random stream, and what a constructor derives from its parameters agrees too.

Whatever is constant in the reference all the same, seen by value (`move_constants`), is moved there, and a
candidate is given it by name (`give`).
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from kernelwright.evaluator.ipc import policy
from kernelwright.evaluator.ipc.model_state import named_state
from kernelwright.evaluator.ipc.weight_spread import UNCHANGED, Spread, spread_draws

_NUMPY_SEEDS = 1 << 32
_STATISTICS = ("running_mean", "running_var")
_PATTERN = "pattern"
"""Name under which tensors of two numbers are counted."""
_REGULAR = "regular"
"""Name for tensors in order or of equal rows, such as steps from 1 to 16 for each of many channels."""
_Remembered = dict[int, weakref.ref[torch.Tensor]]
"""Tensors by their identity, or by where their values lie."""


def seed_everything(seed: int) -> None:
    """Seed the generators that are drawn from unnamed: torch's, Python's, and numpy's if it is there."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % _NUMPY_SEEDS)


def apply_math(math: str) -> None:
    """Allow reduced-precision matrix products only where the policy does."""
    reduced = math != "fp32"
    torch.set_float32_matmul_precision("high" if reduced else "highest")
    torch.backends.cuda.matmul.allow_tf32 = reduced
    torch.backends.cudnn.allow_tf32 = reduced


class _Noise:
    """Draws the k-th noise for a shape and constant, the same in every process."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn: Counter[tuple[tuple[int, ...], float, str]] = Counter()

    def vary(self, tensor: torch.Tensor, name: str = "") -> None:
        """Add noise to a floating tensor that holds one constant; those with a `name` are counted apart."""
        if not (tensor.is_floating_point() and tensor.numel()) or tensor.is_meta:
            return
        constant = float(tensor.detach().flatten()[0])
        key = (tuple(tensor.shape), constant, name)
        digest = hashlib.sha256(f"{self._seed}:{key}:{self._drawn[key]}".encode()).digest()
        self._drawn[key] += 1
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
        noise = torch.rand(tuple(tensor.shape), generator=generator, dtype=torch.float32, device="cpu") - 0.5
        with torch.no_grad():
            if name == _PATTERN:
                # As an identity: near it, or what it is applied to again and again would explode.
                tensor.add_((2 * policy.NOISE_AMPLITUDE / tensor.shape[-1] ** 0.5 * noise).to(tensor))
            elif name == _REGULAR:
                tensor.add_(_room(tensor) * noise.to(tensor))
            else:
                offset = 2 * policy.NOISE_AMPLITUDE * noise
                if 0 < abs(constant) < policy.NOISE_AMPLITUDE:  # a temperature is no temperature below zero
                    offset = math.copysign(1.0, constant) * offset.abs()
                elif abs(constant) < 1:  # nor is a probability or a decay one above one
                    offset *= min(1.0, (1 - abs(constant)) / policy.NOISE_AMPLITUDE) if constant else 1.0
                else:
                    offset *= abs(constant)
                tensor.copy_(constant + offset)


class _Variation:
    """Patches what fills parameters with constants, for as long as a construction takes."""

    def __init__(self, seed: int) -> None:
        self._noise = _Noise(seed)
        self.filled: _Remembered = {}
        """Tensors of one number."""
        self.unfilled: _Remembered = {}
        """Tensors of what happens to lie there, which differs between processes."""
        self._parameters: _Remembered = {}
        self._initialising = False
        self._patches: list[tuple[Any, str, Any]] = []

    def patch(self, owner: Any, names: tuple[str, ...], wrapper: Callable[..., Any]) -> None:
        """Call `wrapper(original, ...)` for functions of a module or class until `undo`."""
        for name in names:
            wrapped = _wrapped(getattr(owner, name), wrapper)
            self._patches.append((owner, name, vars(owner).get(name)))
            setattr(owner, name, wrapped)

    def undo(self) -> None:
        """Put everything back."""
        for owner, name, original in reversed(self._patches):
            if original is None:  # it is inherited
                delattr(owner, name)
            else:
                setattr(owner, name, original)

    def initialise(self, original: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """`nn.init.ones_` and kin: a parameter is varied after it was filled."""
        self._initialising = True
        try:
            original(tensor, *args, **kwargs)
        finally:
            self._initialising = False
        if isinstance(tensor, nn.Parameter) or self._is_parameter(tensor):
            self._noise.vary(tensor, _PATTERN if _is_pattern(tensor) else "")
        return tensor

    def fill(self, original: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """`weight.data.fill_` and kin: where that is all of a parameter, it is varied."""
        filled = original(tensor, *args, **kwargs)
        if not self._initialising and self._is_parameter(tensor):
            self._noise.vary(tensor)
        return filled

    def _is_parameter(self, tensor: torch.Tensor) -> bool:
        try:
            remembered = self._parameters.get(tensor.data_ptr())
        except (RuntimeError, ValueError):
            return False  # some tensors lie nowhere: sparse, batched, lazy ones
        parameter = remembered() if remembered is not None else None
        return parameter is not None and parameter.requires_grad and parameter.shape == tensor.shape

    def register(
        self, original: Any, module: nn.Module, name: str, tensor: Any, *args: Any, **kwargs: Any
    ) -> None:
        """`register_buffer("running_var", torch.ones(n))`: varied as it becomes a norm's statistic."""
        original(module, name, tensor, *args, **kwargs)
        if name in _STATISTICS and isinstance(tensor, torch.Tensor) and _is_constant(tensor):
            self._noise.vary(tensor, name)

    @staticmethod
    def reset(original: Any, norm: Any) -> None:
        """A norm's statistics stay what they were varied to when they were registered."""
        kept = [getattr(norm, name, None) for name in _STATISTICS]
        values = [None if tensor is None or is_lazy(tensor) else tensor.clone() for tensor in kept]
        original(norm)
        for tensor, value in zip(kept, values, strict=True):
            if tensor is not None and value is not None:
                tensor.copy_(value)

    @staticmethod
    def make(made: _Remembered, original: Any, *args: Any, **kwargs: Any) -> Any:
        """`torch.ones`, `torch.empty` and kin: a tensor is remembered in case it becomes a parameter."""
        tensor = original(*args, **kwargs)
        if not torch.compiler.is_compiling():
            made[id(tensor)] = weakref.ref(tensor)
        return tensor

    def _is_unfilled(self, data: torch.Tensor | None) -> bool:
        if data is None or not _is_among(self.unfilled, data):
            return False
        return data.is_inference() or data._version == 0

    def parameter(self, original: Any, cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        """`nn.Parameter(0.1 * torch.ones(n))`: varied as it is made.

        Zeros that no factory made may be memory that is still to be filled; what is never learned may be
        a scale or a mask, which a candidate may know.
        """
        made = original(cls, data, requires_grad)
        is_telling = requires_grad and not self._is_unfilled(data)
        if _is_among(self.filled, data) or (
            is_telling and _is_constant(made) and float(made.detach().flatten()[0]) != 0
        ):
            self._noise.vary(made)
        elif is_telling and _is_pattern(made):
            self._noise.vary(made, _PATTERN)
        elif is_telling and _is_regular(made):
            self._noise.vary(made, _REGULAR)
        if made.layout is torch.strided and not made.is_meta:
            self._parameters[made.data_ptr()] = weakref.ref(made)
        return made


def _wrapped(original: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    return call


def _is_among(made: _Remembered, data: Any) -> bool:
    remembered = made.get(id(data))
    return remembered is not None and remembered() is data


def _is_plain(tensor: torch.Tensor) -> bool:
    is_there = not is_lazy(tensor) and not tensor.is_meta and tensor.layout is torch.strided
    return is_there and tensor.is_floating_point()


def _is_constant(tensor: torch.Tensor) -> bool:
    """Check that a floating tensor holds one finite number only; the first few mostly tell."""
    if not _is_plain(tensor) or tensor.numel() == 0:
        return False
    values = tensor.detach()
    first = values.flatten()[: policy.FIRST_LOOK] if values.is_contiguous() else values
    return all(bool((part == first.flatten()[0]).all()) for part in (first, values))


def _is_pattern(tensor: torch.Tensor) -> bool:
    """Check that a matrix holds two numbers only, one of them at most once a row, as an identity does.

    Weights of one bit hold two numbers as well, and are meant to.
    """
    if not _is_plain(tensor) or tensor.dim() < 2 or tensor.numel() < policy.FEWEST_PATTERNED:
        return False
    values = tensor.detach()
    first = values.flatten()[: policy.FIRST_LOOK] if values.is_contiguous() else values
    for part in (first, values):
        highest = part == part.max()
        if not bool((highest | (part == part.min())).all()):
            return False
    count = int(highest.count_nonzero())
    return 0 < min(count, values.numel() - count) <= values.shape[0]


def _is_regular(tensor: torch.Tensor) -> bool:
    """Check that all rows of a tensor are in order, or equal the first; the first two mostly tell."""
    if not _is_plain(tensor) or tensor.dim() == 0 or tensor.numel() == 0:
        return False
    values = tensor.detach()
    rows = values.reshape(-1, values.shape[-1])
    if values.shape[-1] >= policy.FEWEST_ORDERED and direction(rows[:1]) and direction(rows):
        return True
    channels = len(values) if values.dim() > 1 else 1
    if (channels - 1) * values[0].numel() < policy.FEWEST_REPEATED or not torch.equal(values[0], values[1]):
        return False
    # Zeros may be memory that is still to be filled.
    return bool(values[0].any()) and bool((values == values[0]).all())


def direction(rows: torch.Tensor) -> int:
    """1 where all rows ascend strictly, -1 where they descend, 0 elsewhere."""
    steps = rows.diff(dim=-1)
    return int((steps > 0).all()) - int((steps < 0).all())


def _room(tensor: torch.Tensor) -> torch.Tensor:
    """Twice how far each number may go while rows stay in order, or else each number keeps its sign."""
    rows = tensor.detach().reshape(-1, tensor.shape[-1])
    if tensor.shape[-1] > 1 and direction(rows):
        return rows.diff(dim=-1).abs().min() / 2
    return tensor.detach().abs() / 2


@contextlib.contextmanager
def varied_constants(seed: int) -> Iterator[None]:
    """While active, parameters and running statistics that would start as constants get noise instead."""
    variation = _Variation(seed)
    factories = ("ones", "zeros", "full", "ones_like", "zeros_like", "full_like")
    allocators = ("empty", "empty_like", "empty_strided")
    with torch.device("cpu"):
        # Torch notes once, at first use, what obeys a device context: it must not note the patches.
        torch.empty(0)
    try:
        initialisers = ("ones_", "zeros_", "constant_", "eye_", "dirac_")
        variation.patch(nn.init, initialisers, variation.initialise)
        variation.patch(torch, factories, partial(variation.make, variation.filled))
        variation.patch(torch, allocators, partial(variation.make, variation.unfilled))
        variation.patch(nn.Parameter, ("__new__",), variation.parameter)
        variation.patch(torch.Tensor, ("fill_", "zero_"), variation.fill)
        variation.patch(nn.Module, ("register_buffer",), variation.register)
        variation.patch(_NormBase, ("reset_running_stats",), variation.reset)
        yield
    finally:
        variation.undo()


def move_constants(model: nn.Module, values: Mapping[str, torch.Tensor], seed: int) -> list[str]:
    """Add noise to what holds one number and still the one of `values`, which every seed gives.

    Returns the names of these parameters and floating buffers.
    """
    held, noise, moved = named_state(model), _Noise(seed), []
    for name, value in values.items():
        tensor = held[name]
        if tensor.shape == value.shape and torch.equal(tensor, value) and _is_constant(tensor):
            noise.vary(tensor, name)
            moved += [] if torch.equal(tensor, value) else [name]
    return moved


def give(model: object, tensors: Mapping[str, torch.Tensor]) -> None:
    """Load tensors that a model has by name and shape, as it loads a state dict itself."""
    held = named_state(model)
    fitting = {
        name: tensor
        for name, tensor in tensors.items()
        if name in held and not is_lazy(held[name]) and held[name].shape == tensor.shape
    }
    if fitting and isinstance(model, nn.Module):
        with contextlib.suppress(Exception):  # a hook may want all of a state dict
            model.load_state_dict(fitting, strict=False)
        with torch.no_grad():
            for name, tensor in fitting.items():  # some are no part of a state dict
                own = named_state(model)[name]
                with torch.inference_mode() if own.is_inference() else contextlib.nullcontext():
                    own.copy_(tensor)


def construct(
    model_class: Any,
    args: list[Any],
    kwargs: dict[str, Any],
    seed: int,
    *,
    vary: bool,
    spread: Spread = UNCHANGED,
) -> Any:
    """Build a model under a disclosed seed; with `vary`, parameters are moved off their constants."""
    with varied_constants(seed) if vary else contextlib.nullcontext(), spread_draws(spread):
        seed_everything(seed)
        return model_class(*args, **kwargs)


def load_state(model: nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Load a reference's state as the model itself takes it, else by name, else in order of equal shapes.

    Buffers may be missing on either: masks, tables and packed weights are a model's own affair.

    Raises:
        ValueError: parameters line up neither by name nor by shape, so nothing can be loaded.
    """
    try:
        model.load_state_dict(state)
    except RuntimeError:
        own = dict(model.state_dict())
        if any(map(is_lazy, own.values())):
            raise
        if [tensor.shape for tensor in own.values()] == [tensor.shape for tensor in state.values()]:
            model.load_state_dict(dict(zip(own, state.values(), strict=True)))
        else:
            _load_parts(model, own, state)


def _load_parts(model: nn.Module, own: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> None:
    """Match tensors by name and form, then by form alone, in order."""
    parameters = dict(model.named_parameters())
    fitting = {name: state[name] for name in own if name in state and _form(own[name]) == _form(state[name])}
    ours, theirs = ([name for name in side if name not in fitting] for side in (own, state))
    for form in {_form(own[name]) for name in ours}:
        places = [name for name in ours if _form(own[name]) == form]
        given = [state[name] for name in theirs if _form(state[name]) == form]
        if len(places) != len(given):  # buffers of one side's own are among them
            places = [name for name in places if name in parameters]
        fitting |= dict(zip(places, given, strict=False))
    if not fitting.keys() >= parameters.keys():
        raise ValueError(
            "the parameters do not line up with the reference's, by name or by shape; draw them as it does, "
            "or take its state in a load_state_dict hook"
        )
    model.load_state_dict(fitting, strict=False)


def _form(tensor: torch.Tensor) -> tuple[torch.Size, bool]:
    """Shape and kind: an integer counter is no learned scalar."""
    return tensor.shape, tensor.is_floating_point()
