"""Detects outputs that share memory, and copies them.

A caller may keep an output, write to it and drop it. So an output in memory that something else still uses is
copied while the stopwatch runs, for the reference and candidates alike.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from kernelwright.evaluator.ipc.tensor_layout import span_bytes
from kernelwright.evaluator.ipc.tensor_tree import is_namespace, read_fields


def aliased_outputs(returned: list[Any], shared: frozenset[int]) -> frozenset[int]:
    """Return the `id` of each output tensor that does not own its memory.

    Such a tensor lies in one of the `shared` storages, given by their addresses; or shares elements with
    itself or another output; or its maker still holds it, as a model holds its state; or it is a lazy
    negation or conjugate, or lies in memory that processes share.
    """
    found: set[int] = set()
    by_storage: dict[int, list[torch.Tensor]] = {}
    for leaf in dense_leaves(returned):
        # The count of references comes first: the lines below add some.
        if sys.getrefcount(leaf) > _REFERENCES or _is_aliased(leaf, shared):
            found.add(id(leaf))
        elif leaf.numel():
            by_storage.setdefault(leaf.untyped_storage().data_ptr(), []).append(leaf)
    for leaves in by_storage.values():
        views = any(map(torch.Tensor._is_view, leaves))
        if _storage_uses(leaves[0]) > _STORAGE_USES + len(leaves) - 1 + views:
            found.update(map(id, leaves))
        elif len(leaves) > 1:
            found.update(map(id, _overlapping(leaves)))
    return frozenset(found)


def lazy_outputs(returned: list[Any]) -> frozenset[int]:
    """Return the `id` of each output that is marked as negated, conjugated or zero instead of being so.

    Empty where the first call returned none: calls are alike in that.
    """
    if not any(map(_is_lazy, dense_leaves(returned[:1]))):
        return frozenset()
    return frozenset(id(leaf) for leaf in dense_leaves(returned) if _is_lazy(leaf))


def copy_aliased(value: Any, ids: frozenset[int]) -> Any:
    """Copy the tensors of an output whose `id` is among `ids`; return the output with the copies."""
    if type(value) in (torch.Tensor, nn.Parameter):
        return value.clone() if id(value) in ids else value
    if isinstance(value, (list, tuple)):
        return [copy_aliased(item, ids) for item in value]
    if isinstance(value, Mapping):
        return {key: copy_aliased(item, ids) for key, item in value.items()}
    if is_namespace(value):
        fields = read_fields(value, properties=False).items()
        return SimpleNamespace(**{key: copy_aliased(item, ids) for key, item in fields})
    return value


def dense_leaves(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the plain dense tensors of outputs, each referred to by its container and by this loop."""
    for value in values:
        if type(value) in (torch.Tensor, nn.Parameter):
            if value.layout is torch.strided:
                yield value
        elif isinstance(value, (list, tuple)):
            yield from dense_leaves(value)
        elif isinstance(value, Mapping):
            yield from dense_leaves(value.values())
        elif is_namespace(value):
            held = getattr(value, "__dict__", None)
            yield from dense_leaves((read_fields(value, properties=False) if held is None else held).values())


def _is_aliased(leaf: torch.Tensor, shared: frozenset[int]) -> bool:
    storage = leaf.untyped_storage()
    return (
        storage.data_ptr() in shared
        or _is_lazy(leaf)
        or (leaf.device.type == "cpu" and storage.is_shared())
        or (leaf._is_view() and sys.getrefcount(leaf._base) > _BASE_REFERENCES)
        or (not leaf.is_contiguous() and overlaps_itself(leaf))
    )


def _is_lazy(leaf: torch.Tensor) -> bool:
    return leaf.is_neg() or leaf.is_conj() or leaf._is_zerotensor()


def _storage_uses(leaf: torch.Tensor) -> int:
    """Tensors, in any language, that use the memory of one; and one reference from here."""
    # Any: untyped in torch, as CUDA graph trees use it for the same end.
    counted: Any = torch._C
    return int(counted._storage_Use_Count(leaf.untyped_storage()._cdata))


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Return whether two elements may share memory; strides that nest prove that none do."""
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride < reach:
            return tensor.numel() > 0
        reach += (size - 1) * stride
    return False


def _overlapping(leaves: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Tensors of one storage that may share elements with one that comes before them."""
    active: list[torch.Tensor] = []
    for leaf in sorted(leaves, key=torch.Tensor.data_ptr):
        active = [each for each in active if each.data_ptr() + span_bytes(each) > leaf.data_ptr()]
        if all(_are_interleaved(leaf, each) for each in active):
            active.append(leaf)
        else:
            yield leaf


def _are_interleaved(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Prove that two tensors share no element: modulo some stride they lie side by side, as chunks do."""
    tensors = (left, right)
    axes = [(each.element_size(), stride, size) for each in tensors for stride, size in _axes(each)]
    steps = {unit * stride for unit, stride, size in axes if size > 1 and stride}
    return any(_side_by_side(left, right, step) for step in steps)


def _side_by_side(left: torch.Tensor, right: torch.Tensor, step: int) -> bool:
    widths = []
    for each in (left, right):
        unit = each.element_size()
        within = ((size - 1) * stride for stride, size in _axes(each) if stride * unit % step)
        widths.append((sum(within) + 1) * unit)
    apart = (right.data_ptr() - left.data_ptr()) % step
    return widths[0] <= apart and apart + widths[1] <= step


def _axes(tensor: torch.Tensor) -> Iterator[tuple[int, int]]:
    return zip(tensor.stride(), tensor.shape, strict=True)


def _usual_counts() -> tuple[int, int, int]:
    """References to a fresh output, to the base of a fresh view, and uses of a storage, as counted above."""
    with torch.no_grad():
        for fresh in dense_leaves([torch.empty(4)]):
            references, uses = sys.getrefcount(fresh), _storage_uses(fresh)
        for view in dense_leaves([torch.empty(4).view(2, 2)]):
            of_base = sys.getrefcount(view._base)
    return references, of_base, uses


_REFERENCES, _BASE_REFERENCES, _STORAGE_USES = _usual_counts()
