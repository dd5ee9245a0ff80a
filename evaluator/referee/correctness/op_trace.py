"""What a call of the reference does on its way: how much it sums, whether it decides, where it rounds."""

from __future__ import annotations

import re
from typing import Any, Final

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from kernelwright.evaluator.referee.correctness.tolerance import REDUCED_LIMIT
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference

_MOST_TERMS = {True: 1 << 10, False: 1 << 18}
"""Terms that allow for more error, with products and without: beyond, TF32 or a mere sample would do.

Products of random signs added one after another err 5 scales at 4096 terms and 20 at 131072; with one operand
in TF32 it is 600 and 450.
"""
_SUMMED_UP: Final = 16
"""How many times more inputs than terms of a product an output takes where products are summed up in turn."""
_HALVES: Final = {torch.float16, torch.bfloat16}
_STEPPING = re.compile(
    r"_*(r?floor_?divide|r?floordiv|round|floor|ceil|trunc|fix|frac|r?remainder|r?mod|fmod|sign|sgn|heaviside|"
    r"hardshrink|threshold|fake_quantize\w*|quantize\w*|histc|histogram\w*|grid_sample)_*"
)
"""Operations that jump, by name; others are known by the whole numbers they make of floating ones."""


class _Watch(TorchFunctionMode):
    """Watches operations go by: the longest sum an element of a product needs, and whether any decides.

    And the coarsest half precision that any answers in.
    """

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
    """Whether an operation gave whole numbers or truths."""
    if isinstance(result, torch.Tensor):
        return not (result.is_floating_point() or result.is_complex())
    return isinstance(result, tuple) and any(map(_is_whole, result))


def _rounds(reference: Reference, model: nn.Module, arguments: Arguments, output: Output) -> bool:
    """Whether an answer is another without its roundings to half precision, as what these took off is."""
    exact = reference.in_double(model, arguments)
    return exact is not None and any(
        own.is_floating_point() and _differ(own.double(), best.double())
        for own, best in zip(output.leaves, exact.leaves, strict=False)
    )


def _differ(own: torch.Tensor, best: torch.Tensor) -> bool:
    """Whether what is off by all that half precision is allowed passes for the answer, or half of it does."""
    if own.shape != best.shape:
        return False
    finite = own.isfinite() & best.isfinite()
    error, size = (torch.where(finite, values, 0.0).norm() for values in (own - best, best))
    return bool(2 * REDUCED_LIMIT * error > size)


def terms_of(reference: Reference, model: nn.Module, arguments: Arguments) -> int:
    """About how many terms an output element sums: from products seen, or inputs per output."""
    with _Watch() as longest:
        output = reference.call(model, arguments)
    reference.decides = longest.decides
    reference.half = max(longest.halves, key=lambda dtype: torch.finfo(dtype).eps, default=None)
    if reference.half is not None and not reference.rounds and _rounds(reference, model, arguments, output):
        reference.rounds = True
    produced = max(1, min(leaf.numel() for leaf in output.leaves))
    consumed = max((leaf.numel() for leaf in arguments.leaves), default=1)
    floating = [leaf for leaf in arguments.leaves if leaf.is_floating_point() and leaf.dim()]
    widest = max((leaf.shape[-1] for leaf in floating), default=1)
    terms = int(max(longest.terms, consumed // produced, widest))
    # Beside products sums are often of positive terms, as in a softmax or a loss, where adding one after
    # another loses small ones for good. Nothing there is computed in TF32, the closest thing to keep apart.
    products = longest.terms > 1 and consumed // produced <= _SUMMED_UP * longest.terms
    return min(terms if products else 4 * terms, _MOST_TERMS[products])
