"""Runs a reference in float64 throughout, whatever types it asks for on its way.

A model computes in half precision between wide inputs and outputs in order to be fast; kernels that fuse
those steps round elsewhere or not at all. The exact outputs are those without these roundings.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import nn

from kernelwright.evaluator.referee.reference.dynamo_stub import DispatchMode

_WIDE: Final = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
"""Eight bits are missing: rounding to them is meant."""
_DRAWS: Final = ("rand", "normal", "bernoulli", "dropout")
_CONSTANT: Final = torch.ops.aten.lift_fresh.default


def doubled_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type of double precision for a type; whole numbers stay."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def doubled(model: nn.Module) -> nn.Module:
    """A model in double precision, complex parameters and buffers too, which `double` leaves alone."""
    model = model.double()
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_complex():
            tensor.data = tensor.data.to(torch.complex128)
    return model


class Float64Mode(DispatchMode):
    """Replaces narrower types that operations are asked for by float64, but for random numbers."""

    # Any: whatever torch hands to a dispatch mode.
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        asked = named.get("dtype")
        if asked in _WIDE and not any(word in str(func) for word in _DRAWS):
            named["dtype"] = _WIDE[asked]
        result = func(*args, **named)
        if func is _CONSTANT and result.dtype in _WIDE:
            return result.to(_WIDE[result.dtype])
        return result
