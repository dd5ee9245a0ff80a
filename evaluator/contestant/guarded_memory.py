"""Arguments, parameters and fresh tensors of one run in memory between guard pages."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.evaluator.contestant.output_aliasing import overlaps_itself
from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.devices.guarded_block import GuardedBlock
from kernelwright.evaluator.ipc.contestant_messages import Guard
from kernelwright.evaluator.ipc.tensor_layout import span_bytes

_EMPTY: Final = frozenset(
    f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
)
_FILLED: Final = frozenset(
    f"aten::{form}" for kind in ("zeros", "ones", "full") for form in (kind, f"{kind}_like", f"new_{kind}")
) | {"aten::clone"}
_INPUT, _PARAMETERS, _ALLOCATIONS = "input", "parameters", "allocations"


class GuardedMemory:
    """Places the tensors of one run between guard pages, until its bytes are used up."""

    def __init__(self, device: Device, request: Guard) -> None:
        self._device = device
        self._request = request
        self._left = request.budget
        self._blocks: list[tuple[str, GuardedBlock]] = []
        self._copies: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        """Originals, their copies, and what these held at first."""

    def argument(self, number: int, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of an argument; the run's changes to it are copied back."""
        return self._copy(tensor, f"{_INPUT} {number}")

    @contextlib.contextmanager
    def around(self, model: Any) -> Iterator[None]:
        """Let a model compute with guarded parameters, and allocate guarded memory."""
        named = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
        kept = [(tensor, tensor.data) for tensor in named]
        try:
            for tensor, data in kept:
                tensor.data = self._copy(data, _PARAMETERS)
            with (
                _eager_unless_compiled(),
                _FreshTensors(self.allocated) if self._wants(_ALLOCATIONS) else contextlib.nullcontext(),
            ):
                yield
        finally:
            for tensor, data in kept:
                tensor.data = data
        for tensor, copy, first in self._copies:
            # What changed another way, such as by a pointer that the candidate keeps, stays.
            if not torch.equal(_bytes(copy), _bytes(first)):
                tensor.copy_(copy)

    def allocated(self, tensor: torch.Tensor, *, filled: bool) -> torch.Tensor:
        """A tensor just allocated, moved here."""
        if tensor.device != self._device.torch_device or tensor.is_pinned():
            return tensor
        if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
            return tensor
        moved = self._place(tensor, _ALLOCATIONS)
        return moved.copy_(tensor) if filled and moved is not tensor else moved

    def overrun(self) -> str:
        """Say which memory was written to beyond its ends; empty for none."""
        for name, block in self._blocks:
            if side := block.written():
                return f"it writes {side} of its {name}"
        return ""

    def unmap_unused(self) -> None:
        """Unmap the blocks that hold no tensor any more; the device must be idle."""
        self._copies.clear()
        for _, block in self._blocks:
            block.unmap_unused()
        self._blocks.clear()

    def _wants(self, name: str) -> bool:
        return name in self._request.tensors or name.partition(" ")[0] in self._request.tensors

    def _copy(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        copy = self._place(tensor, name)
        if copy is not tensor:
            copy.copy_(tensor)
            self._copies.append((tensor, copy, tensor.detach().clone(memory_format=torch.contiguous_format)))
        return copy

    def _place(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """Memory for a tensor like this one; the tensor itself where there is none."""
        if not self._wants(name) or type(tensor) is not torch.Tensor or not _is_movable(tensor):
            return tensor
        size = span_bytes(tensor)
        if not size or size > self._left:
            return tensor
        block = self._device.guarded(size, self._request.edge)
        if block is None or block.data is None:
            return tensor
        self._left -= block.pages.size
        self._blocks.append((name, block))
        placed = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return placed.set_(block.data.untyped_storage(), 0, tensor.shape, tensor.stride())


def _eager_unless_compiled() -> contextlib.AbstractContextManager[None]:
    """Compile nothing now: what torch's compiler meets under a dispatch mode it never compiles later."""
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    stance: contextlib.AbstractContextManager[None] = torch.compiler.set_stance("eager_on_recompile")
    return stance


def _is_movable(tensor: torch.Tensor) -> bool:
    return not tensor.is_nested and tensor.layout is torch.strided and not overlaps_itself(tensor)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


class _FreshTensors(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """Passes on what torch allocates, from Python and from C++."""

    def __init__(self, moved: Callable[..., torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self._moved = moved

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else the first use imports all of torch's compiler, for seconds."""
        return False

    # Any: whatever operators take and return.
    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Any = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        kind = func._schema.name
        if kind in _EMPTY or kind in _FILLED:
            return self._moved(result, filled=kind in _FILLED)
        return result
