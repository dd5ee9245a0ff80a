"""Snapshot of a model's buffers, which it keeps between calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parameter import is_lazy


@dataclass(frozen=True, slots=True)
class _Place:
    """One buffer of one module."""

    module: nn.Module
    name: str
    buffer: torch.Tensor | None
    value: torch.Tensor | None
    """A copy of its value; None for a lazy buffer."""

    @property
    def is_replaced(self) -> bool:
        return self.module._buffers.get(self.name) is not self.buffer

    @property
    def is_written_to(self) -> bool:
        # Of sparse ones torch cannot say whether they are equal.
        if self.buffer is None or self.value is None or self.buffer.layout is not torch.strided:
            return False
        return not torch.equal(self.buffer, self.value)

    def restore(self) -> None:
        self.module._buffers[self.name] = self.buffer
        if self.buffer is not None and self.value is not None:
            self.buffer.copy_(self.value)


class ModelState:
    """The buffers of a model; only modules have any that can be found."""

    def __init__(self, model: object) -> None:
        modules = model.modules() if isinstance(model, nn.Module) else ()
        self._places = [
            _Place(module, name, buffer, None if buffer is None or is_lazy(buffer) else buffer.clone())
            for module in modules
            for name, buffer in module._buffers.items()
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
