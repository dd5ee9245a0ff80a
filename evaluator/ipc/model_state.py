"""Snapshot of a model's state between calls: its buffers, and parameters that calls change."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parameter import is_lazy

_WRAPPED = "_orig_mod."
"""Part that torch.compile adds to names."""


def named_state(model: object) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, as their model was written; empty for what is no module."""
    if not isinstance(model, nn.Module):
        return {}
    named = (*model.named_parameters(), *model.named_buffers())
    return {name.replace(_WRAPPED, ""): tensor for name, tensor in named}


@dataclass(frozen=True, slots=True)
class _Place:
    """One buffer or parameter of one module."""

    held: dict[str, torch.Tensor | None]
    """The module's own dictionary."""
    name: str
    buffer: torch.Tensor | None
    value: torch.Tensor | None
    """A copy of its value; None for a lazy buffer."""

    @property
    def is_replaced(self) -> bool:
        # A scripted module's dictionary has no `get`.
        return self.name not in self.held or self.held[self.name] is not self.buffer

    @property
    def is_written_to(self) -> bool:
        # Of sparse ones torch cannot say whether they are equal.
        if self.buffer is None or self.value is None or self.buffer.layout is not torch.strided:
            return False
        return not torch.equal(self.buffer, self.value)

    def restore(self) -> None:
        self.held[self.name] = self.buffer
        if self.buffer is not None and self.value is not None:
            self.buffer.copy_(self.value)


def _copy_of(buffer: torch.Tensor | None) -> torch.Tensor | None:
    if buffer is None or is_lazy(buffer) or buffer.is_nested:
        return None
    strides = buffer.stride() if buffer.layout is torch.strided else ()
    if any(stride == 0 and size > 1 for stride, size in zip(strides, buffer.shape, strict=False)):
        return None  # expanded: nothing can be written to it
    return buffer.detach().clone()


def _is_own(module: nn.Module, name: str, buffer: torch.Tensor | None) -> bool:
    return buffer is None or name in getattr(module, "_non_persistent_buffers_set", ())


class ModelState:
    """The state of a model; only modules have any that can be found."""

    def __init__(self, model: object, names: Collection[str] = (), *, without_own: bool = False) -> None:
        """All buffers, and the parameters among `names`.

        With `without_own`, buffers whose names end as none of `names` only where a state dict holds them:
        what a candidate keeps for itself, such as a workspace, is no state.
        """
        ends = {name.rpartition(".")[2] for name in names}
        modules = model.named_modules() if isinstance(model, nn.Module) else ()
        self._places = [
            _Place(held, name, buffer, _copy_of(buffer))
            for prefix, module in modules
            for held in (module._buffers, module._parameters)
            for name, buffer in held.items()
            if f"{prefix}.{name}".lstrip(".").replace(_WRAPPED, "") in names
            or (
                held is module._buffers
                and (name in ends or not (without_own and _is_own(module, name, buffer)))
            )
        ]

    @property
    def has_changed(self) -> bool:
        """True where a buffer was written to or replaced."""
        return any(place.is_replaced or place.is_written_to for place in self._places)

    def lends(self, tensors: Iterable[torch.Tensor]) -> bool:
        """True where a tensor lies in a buffer that was written to: the next call would change it."""
        written = (place.buffer for place in self._places if place.is_written_to)
        memory = {buffer.untyped_storage()._cdata for buffer in written if buffer is not None}
        return any(tensor.untyped_storage()._cdata in memory for tensor in tensors)

    def restore(self) -> None:
        """Put the same tensors back, with the same values."""
        # A model may have been made where torch keeps no record of writes.
        with torch.inference_mode():
            for place in self._places:
                place.restore()
