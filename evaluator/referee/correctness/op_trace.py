"""Traces one call of the reference: the terms it sums, its decisions, roundings and state.

The result is a value, passed to whatever sets a tolerance; nothing is stored in the reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from kernelwright.evaluator.referee.correctness.policy import (
    MAX_PRODUCT_TERMS,
    MAX_SUM_TERMS,
    REDUCED_LIMIT,
    SUMMED_PRODUCTS,
)
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference

_HALVES: Final = {torch.float16, torch.bfloat16}
_STEPPING = re.compile(
    r"_*(r?floor_?divide|r?floordiv|round|floor|ceil|trunc|fix|frac|r?remainder|r?mod|fmod|sign|sgn|heaviside|"
    r"hardshrink|threshold|fake_quantize\w*|quantize\w*|histc|histogram\w*|grid_sample)_*"
)
"""Operations that jump, by name; others are known by the whole numbers they make of floating ones."""


@dataclass(frozen=True, slots=True)
class OpTrace:
    """Facts about a reference that its tolerances depend on."""

    terms: int = 1
    """About how many terms an output element sums."""
    decides: bool = False
    """The call rounds, compares or chooses among floating numbers: outputs may jump."""
    half: torch.dtype | None = None
    """Coarsest half precision that operations return."""
    keeps_roundings: bool = False
    """Roundings to half precision are meant: without them the output is another."""
    keeps_state: bool = False
    """The call writes to the model's buffers: later calls may return something else."""
    flips: Mapping[int, int] = field(default_factory=dict)
    """Elements of one group that jumped together in trials solved so far, by output."""

    def noting(self, flips: Mapping[int, int], *, keeps_state: bool) -> OpTrace:
        """The same with the observations of one more trial."""
        most = {index: max(found, self.flips.get(index, 0)) for index, found in flips.items()}
        return replace(self, flips={**self.flips, **most}, keeps_state=self.keeps_state or keeps_state)


class _OpWatch(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.terms = 1
        self.decides = False
        self.halves: set[torch.dtype] = set()

    # Any: whatever torch hands to a function mode.
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.dim()]
        if "conv" in name and len(tensors) > 1:
            self.terms = max(self.terms, tensors[1][0].numel())
        elif tensors and any(word in name for word in ("mm", "matmul", "linear", "einsum", "attention")):
            self.terms = max(self.terms, *(max(tensor.shape[-2:]) for tensor in tensors[:2]))
        named = kwargs or {}
        result = func(*args, **named)
        found = result if isinstance(result, tuple) else (result,)
        self.halves |= {each.dtype for each in found if isinstance(each, torch.Tensor)} & _HALVES
        if any(isinstance(arg, torch.Tensor) and arg.is_floating_point() for arg in (*args, *named.values())):
            steps = _STEPPING.fullmatch(name) or named.get("rounding_mode") is not None
            self.decides = self.decides or bool(steps) or _is_whole(result)
        return result


def _is_whole(result: object) -> bool:
    if isinstance(result, torch.Tensor):
        return not (result.is_floating_point() or result.is_complex())
    return isinstance(result, tuple) and any(map(_is_whole, result))


def _means_its_roundings(
    reference: Reference, model: nn.Module, arguments: Arguments, output: Output
) -> bool:
    exact = reference.in_double(model, arguments)
    return exact is not None and any(
        own.is_floating_point() and _differ(own.double(), best.double())
        for own, best in zip(output.leaves, exact.leaves, strict=False)
    )


def _differ(own: torch.Tensor, best: torch.Tensor) -> bool:
    """Return whether an error at half precision's limit would pass for the output, or for half of it."""
    if own.shape != best.shape:
        return False
    finite = own.isfinite() & best.isfinite()
    error, size = (torch.where(finite, values, 0.0).norm() for values in (own - best, best))
    return bool(2 * REDUCED_LIMIT * error > size)


def trace_call(reference: Reference, model: nn.Module, arguments: Arguments) -> OpTrace:
    """Trace one call."""
    with _OpWatch() as seen:
        output = reference.call(model, arguments)
    half = max(seen.halves, key=lambda dtype: torch.finfo(dtype).eps, default=None)
    return OpTrace(
        terms=_terms(seen.terms, arguments, output),
        decides=seen.decides,
        half=half,
        keeps_roundings=half is not None and _means_its_roundings(reference, model, arguments, output),
        keeps_state=output.wrote_state,
    )


def _terms(product_terms: int, arguments: Arguments, output: Output) -> int:
    """About how many terms an output element sums: from products seen, or inputs per output."""
    produced = max(1, min(leaf.numel() for leaf in output.leaves))
    consumed = max((leaf.numel() for leaf in arguments.leaves), default=1)
    floating = [leaf for leaf in arguments.leaves if leaf.is_floating_point() and leaf.dim()]
    widest = max((leaf.shape[-1] for leaf in floating), default=1)
    terms = int(max(product_terms, consumed // produced, widest))
    # Beside products sums are often of positive terms, as in a softmax or a loss, where adding one after
    # another loses small ones for good. Nothing there is computed in TF32, the closest thing to keep apart.
    if product_terms > 1 and consumed // produced <= SUMMED_PRODUCTS * product_terms:
        return min(terms, MAX_PRODUCT_TERMS)
    return min(4 * terms, MAX_SUM_TERMS)
