"""Counts the arithmetic, traffic and memory of one call of a reference, operation by operation.

Counted from shapes, so that it also works on tensors without data: a problem can be weighed before it is run.
Ours instead of torch's flop counter, whose import alone costs seconds.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from kernelwright.evaluator.referee.reference import policy
from kernelwright.evaluator.referee.reference.dynamo_stub import DispatchMode, without_compiler
from kernelwright.evaluator.referee.reference.reference import Arguments, Reference
from kernelwright.evaluator.schema.errors import ProblemError

_GATHERING: Final = frozenset(
    f"aten::{name}" for name in ("embedding", "index", "gather", "index_select", "take", "_embedding_bag")
)
"""Operations that read no more of their first argument than they write."""
_VIEWS: Final = ("view", "_unsafe_view", "t", "transpose", "permute", "unsqueeze", "squeeze", "expand")
_LINEAR: Final = frozenset(f"aten::{name}" for name in (*_VIEWS, "clone", "_to_copy", "add", "sub"))
"""Operations between a product and a sum that do not keep the two from being exchanged."""
_SCALINGS: Final = frozenset(("aten::mul", "aten::div"))
"""The same, unless the factor is as large as the product."""
_MASKS: Final = frozenset(
    f"aten::{name}" for name in ("masked_fill", "masked_fill_", "triu", "tril", "triu_", "tril_")
)
"""Operations that leave a part of their operands out."""
_SUMS: Final = frozenset(("aten::sum", "aten::mean"))

Answer = Callable[[nn.Module, Arguments], Any]
"""A call to be counted, such as one with gradients."""
# Any: arguments of an operation are whatever its schema allows.
_Named = dict[str, Any]


@dataclass(slots=True)
class OpCounts:
    """The counts of one call."""

    flops: int = 0
    """Operations of matrix products, convolutions, attention and recurrences; a multiply-add is two."""
    moved_bytes: int = 0
    """Read and written by all operations, each on its own."""
    read_bytes: int = 0
    """Inputs and parameters read once, as far as the operations look at them."""
    written_bytes: int = 0
    """Outputs written once."""
    peak_bytes: int = 0
    """Largest memory of inputs, parameters and intermediate results at one time."""
    operations: int = 0
    fixed_flops: int = 0
    """Part of `flops` that no input takes part in: its result is the same in every call."""
    fixed_bytes: int = 0
    """Part of `moved_bytes`, likewise."""
    sums_products: bool = False
    """A product of matrices was summed straight away: most of its work is not needed."""
    masks: bool = False
    """A part of the operands is left out: a kernel may skip the work that goes into it."""
    complete: bool = True
    """False when the call could not be followed to its end."""


def _call(model: nn.Module, arguments: Arguments) -> Any:
    args, kwargs = arguments.values()
    return model(*args, **kwargs)


def count(model: nn.Module, arguments: Arguments, *, answer: Answer = _call) -> OpCounts:
    """Count one call, or `answer` instead; the state of the model may change."""
    counter = OpCounter()
    counter.follow(model, arguments, answer)
    return counter.work


def count_problem_work(problem: str, source: str, overrides: dict[str, Any], *, dtype: str) -> OpCounts:
    """Count one call on tensors without data, as far as that goes.

    Raises:
        ProblemError: the problem cannot be imported.
    """
    counter = OpCounter()
    with torch.device("meta"), without_compiler():
        reference = Reference(problem, source, overrides, device=torch.device("meta"), dtype=dtype)
        try:
            with counter:
                model, arguments = reference.model(0), reference.inputs(0)
            counter.work = OpCounts(peak_bytes=counter.work.peak_bytes)
            counter.follow(model, arguments)
        # A model may do anything with a tensor that has no data, such as asking for its values or device.
        except (
            ProblemError,
            ArithmeticError,
            RuntimeError,
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            AssertionError,
        ):
            counter.work.complete = False
    return counter.work


@dataclass(slots=True)
class _Holdings:
    live: int = 0
    peak: int = 0
    known: set[int] = field(default_factory=set)
    varying: set[int] = field(default_factory=set)
    """Those that depend on inputs."""

    def hold(self, tensor: torch.Tensor) -> None:
        """Count a storage until it dies."""
        storage = tensor.untyped_storage()
        if storage._cdata in self.known:
            return
        self.known.add(storage._cdata)
        self.live += storage.nbytes()
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._release, storage._cdata, storage.nbytes())

    def _release(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.varying.discard(key)
        self.live -= size


class OpCounter(DispatchMode):
    """Adds up the operations that go by; views are free."""

    def __init__(self) -> None:
        super().__init__()
        self.work = OpCounts()
        self._holdings = _Holdings()
        self._given: dict[int, int] = {}
        self._read: dict[int, int] = {}
        self._products: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()

    def follow(self, model: nn.Module, arguments: Arguments, answer: Answer = _call) -> Any:
        """Count a call, and return what it returns.

        What the model holds and what it is given must be read at most once, each.
        """
        for tensor in (*model.parameters(), *model.buffers(), *arguments.leaves):
            self._holdings.hold(tensor)
            self._given[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        self._holdings.varying.update(leaf.untyped_storage()._cdata for leaf in arguments.leaves)
        with self, torch.no_grad():
            output = answer(model, arguments)
        self.work.written_bytes = sum(map(_size, tensors(output)))
        self.work.read_bytes = sum(min(read, self._given[key]) for key, read in self._read.items())
        return output

    # Any: whatever torch hands to a dispatch mode.
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        read, made = tensors((args, kwargs)), tensors(result)
        name = func._schema.name
        self._follow_products(name, read, made)
        self.work.masks |= name in _MASKS or (name in _ATTENTION and _has_bias(_named(func, args, kwargs)))
        storages = {tensor.untyped_storage()._cdata for tensor in read}
        new = [tensor for tensor in made if tensor.untyped_storage()._cdata not in storages]
        for tensor in new:
            self._holdings.hold(tensor)
        self.work.peak_bytes = self._holdings.peak
        varies = not storages.isdisjoint(self._holdings.varying)
        if varies:
            self._holdings.varying.update(tensor.untyped_storage()._cdata for tensor in made)
        if new or func._schema.is_mutable:
            moved = sum(map(_size, (*read, *new)))
            self.work.operations += 1
            self.work.moved_bytes += moved
            self.work.fixed_bytes += 0 if varies else moved
            self._look(name, read, made)
        formula = _FORMULAS.get(name)
        if formula is not None:
            flops = formula(_named(func, args, kwargs), made)
            self.work.flops += flops
            self.work.fixed_flops += 0 if varies else flops
        return result

    def _look(self, name: str, read: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        for position, tensor in enumerate(read):
            key = tensor.untyped_storage()._cdata
            if key in self._given:
                gathered = name in _GATHERING and position == 0 and made
                size = min(_size(tensor), _size(made[0])) if gathered else _size(tensor)
                self._read[key] = self._read.get(key, 0) + size

    def _follow_products(self, name: str, read: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        """Mark products and what is linear in them, and notice when one is summed."""
        linear = name in _LINEAR or (name in _SCALINGS and all(_shrinks(made[:1], [t]) for t in read[1:]))
        first = bool(read) and id(read[0]) in self._products
        if name in _PRODUCTS or (first and linear):
            self._products.update({id(tensor): tensor for tensor in made})
        elif first and name in _SUMS and _shrinks(read[:1], made):
            self.work.sums_products = True


def _shrinks(before: list[torch.Tensor], after: list[torch.Tensor]) -> bool:
    return bool(before and after) and after[0].numel() * policy.SUM_SHRINKS <= before[0].numel()


def tensors(tree: Any) -> list[torch.Tensor]:
    """All tensors in a nest of what torch knows as containers."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _size(tensor: torch.Tensor) -> int:
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def _named(func: Any, args: Any, kwargs: Any) -> _Named:
    names = [argument.name for argument in func._schema.arguments]
    return dict(zip(names, args, strict=False)) | (kwargs or {})


def _product(first: str, second: str) -> Callable[[_Named, list[torch.Tensor]], int]:
    def flops(named: _Named, made: list[torch.Tensor]) -> int:
        columns = named[second].shape[-1] if named[second].dim() > 1 else 1
        return int(2 * named[first].numel() * columns)

    return flops


def _linear(named: _Named, made: list[torch.Tensor]) -> int:
    return int(2 * named["input"].numel() * named["weight"].shape[0])


def _convolution(named: _Named, made: list[torch.Tensor]) -> int:
    places = named["input"] if named.get("transposed") else made[0]
    return int(2 * places.numel() * named["weight"][0].numel())


def _attention(named: _Named, made: list[torch.Tensor]) -> int:
    query, keys, width = named["query"], named["key"].shape[-2], named["value"].shape[-1]
    flops = 2 * query.numel() * keys + 2 * (query.numel() // query.shape[-1]) * keys * width
    return int(flops) // (2 if named.get("is_causal") else 1)


def _recurrence(named: _Named, made: list[torch.Tensor]) -> int:
    weights = named.get("weight") or [named["weight0"], named["weight1"]]
    steps = named["input"].numel() // named["input"].shape[-1]
    return int(2 * steps * sum(weight.numel() for weight in weights))


def _has_bias(named: _Named) -> bool:
    return any(named.get(name) is not None for name in ("attn_bias", "attn_mask"))


_ATTENTION: Final = tuple(
    f"aten::_scaled_dot_product_{kind}"
    for kind in (
        "flash_attention",
        "flash_attention_for_cpu",
        "efficient_attention",
        "cudnn_attention",
        "fused_attention_overrideable",
    )
)
_FORMULAS: Final[dict[str, Callable[[_Named, list[torch.Tensor]], int]]] = {
    "aten::mm": _product("self", "mat2"),
    "aten::bmm": _product("self", "mat2"),
    "aten::addmm": _product("mat1", "mat2"),
    "aten::_addmm_activation": _product("mat1", "mat2"),
    "aten::baddbmm": _product("batch1", "batch2"),
    "aten::addbmm": _product("batch1", "batch2"),
    "aten::mv": _product("self", "vec"),
    "aten::addmv": _product("mat", "vec"),
    "aten::dot": _product("self", "tensor"),
    "aten::linear": _linear,
    "aten::convolution": _convolution,
    "aten::_cudnn_rnn": _recurrence,
    "aten::mkldnn_rnn_layer": _recurrence,
    **dict.fromkeys(_ATTENTION, _attention),
}
_PRODUCTS: Final = frozenset(_FORMULAS) - {"aten::dot", "aten::_cudnn_rnn", "aten::mkldnn_rnn_layer"}
