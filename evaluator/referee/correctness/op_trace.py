"""Traces one call of the reference: the terms it sums, its decisions, roundings and state.

The result is a value, passed to whatever sets a tolerance; nothing is stored in the reference.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.reference.dynamo_stub import DispatchMode
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference
from kernelwright.evaluator.schema.errors import ProblemError

_HALVES: Final = {torch.float16, torch.bfloat16}
_STEPPING = re.compile(
    r"_*(r?floor_?divide|r?floordiv|round|floor|ceil|trunc|fix|frac|r?remainder|r?mod|fmod|sign|sgn|heaviside|"
    r"hardshrink|threshold|fake_quantize\w*|quantize\w*|histc|histogram\w*|grid_sample)_*"
)
"""Operations that jump, by name; others are known by the whole numbers they make of floating ones."""

_OPERANDS: Final = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "convolution", "cudnn_convolution"), 0),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv"), 1),
}
"""Products, and the place of the first of their two operands."""
_MOVES: Final = re.compile(
    r"_*(to_copy|unsafe_view|all|amax|amin|any|arange|argmax|argmin|bernoulli|cat|clone|conj|constant_pad_nd|copy|"
    r"detach|embedding|empty\w*|eye|fill|flip|full|full_like|gather|index|index_put|index_select|kthvalue|"
    r"lift_fresh|local_scalar_dense|max|max_pool\dd(_with_indices)?|median|min|new_\w+|normal|ones|ones_like|pixel_shuffle|"
    r"rand\w*|repeat\w*|reshape_alias|resolve_conj|roll|scalar_tensor|scatter|slice_scatter|sort|stack|topk|"
    r"tril|triu|uniform|unsafe_split\w*|zero|zeros|zeros_like)_*"
)
"""Operations that move, choose or make elements."""
_CHOOSES: Final = re.compile(
    r"_*(abs|bitwise_\w+|clamp\w*|eq|ge|gt|isfinite|isinf|isnan|le|logical_\w+|lt|masked_fill|maximum|minimum|ne|neg|"
    r"relu|threshold|where)_*"
)
"""Elementwise operations whose results are elements that they were given, or signs and truths of them."""
_SUMS: Final = frozenset({"sum", "mean", "cumsum"})


@dataclass(frozen=True, slots=True)
class ReductionTerms:
    """Terms of the longest reductions of a call."""

    products: int = 1
    """Terms of a sum of products."""
    sums: int = 1
    """Terms of any other reduction."""
    convolves: bool = False
    """Some of the products are convolutions, for which there are faster and less exact algorithms."""
    computes: bool = True
    """False where every output is an element that was given: there is nothing to round."""

    @property
    def longest(self) -> int:
        return max(self.products, self.sums)


@dataclass(frozen=True, slots=True)
class OpTrace:
    """Facts about a reference that its tolerances depend on."""

    terms: ReductionTerms = ReductionTerms()
    """Terms of the call's longest reductions."""
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
        self.decides = False
        self.halves: set[torch.dtype] = set()

    # Any: whatever torch hands to a function mode.
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
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
        return not _is_floating(result)
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
    return bool(2 * policy.REDUCED_LIMIT * error > size)


def trace_call(reference: Reference, model: nn.Module, arguments: Arguments) -> OpTrace:
    with _OpWatch() as seen, ReductionCounter() as counted:
        output = reference.call(model, arguments)
    half = max(seen.halves, key=lambda dtype: torch.finfo(dtype).eps, default=None)
    return OpTrace(
        terms=counted.terms if half is None else replace(counted.terms, computes=True),
        decides=seen.decides,
        half=half,
        keeps_roundings=half is not None and _means_its_roundings(reference, model, arguments, output),
        keeps_state=output.wrote_state,
    )


def nonzero_terms(reference: Reference, model: nn.Module, arguments: Arguments) -> int:
    """Terms of a call's longest reduction that are not zero; no end of them where the reference fails."""
    with ReductionCounter(nonzero=True) as counted:
        try:
            reference.call(model, arguments)
        except ProblemError:
            return sys.maxsize
    found: ReductionTerms = counted.terms
    return found.longest


class ReductionCounter(DispatchMode):
    """Counts the terms of the reductions that a call makes, operation by operation.

    Elementwise operations, views and moves reduce nothing; what is no product and no plain sum counts as a
    sum over what it makes less of, or over its input's longest dimension. With `nonzero`, terms of products
    and plain sums that are zero for these very inputs do not count.
    """

    def __init__(self, *, nonzero: bool = False) -> None:
        super().__init__()
        self.terms: ReductionTerms = ReductionTerms(computes=False)
        self._nonzero = nonzero

    # Any: whatever torch hands to a dispatch mode.
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if not self.terms.computes and _computes(func, args, kwargs or {}, result):
            self.terms = replace(self.terms, computes=True)
        if torch.Tag.pointwise in func.tags or func.is_view or _MOVES.fullmatch(name):
            return result
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor) and _is_floating(arg)]
        if not tensors or _is_frozen_norm(name, args):
            return result
        products, sums = self.terms.products, self.terms.sums
        if name in _OPERANDS:
            products = max(products, self._product(func, args, _OPERANDS[name]))
        elif "attention" in name and len(tensors) > 1:
            products = max(products, tensors[0].shape[-1], tensors[1].shape[-2])
            sums = max(sums, tensors[1].shape[-2])
        elif name in _SUMS and self._nonzero:
            sums = max(sums, _nonzero_sum(func, args, kwargs or {}))
        elif "nll_loss" in name:
            sums = max(sums, args[1].numel())
        else:
            sums = max(sums, _reduced(tensors[0], result))
        convolves = self.terms.convolves or "convolution" in name
        self.terms = ReductionTerms(products, sums, convolves, self.terms.computes)
        return result

    # Any: an operation and its arguments.
    def _product(self, func: Any, args: Sequence[Any], first: int) -> int:
        one, other = args[first], args[first + 1]
        if not self._nonzero:
            return _product_terms(one, other, args)
        operands = [(operand != 0).to(torch.float32) for operand in (one, other)]
        rest = [None, *args[3:]] if first == 0 and len(args) > 2 else args[first + 2 :]
        start = [torch.zeros_like(args[0], dtype=torch.float32)] if first else []
        return _most(func(*start, *operands, *rest))


# Any: an operation, its arguments and its result.
def _computes(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> bool:
    """Return whether an operation makes floating numbers that it was not given."""
    made = result if isinstance(result, (tuple, list)) else (result,)
    name = func.overloadpacket.__name__
    if func.is_view or not any(isinstance(each, torch.Tensor) and _is_floating(each) for each in made):
        return False
    if name == "abs" and args[0].is_complex():
        return True
    adds = bool(kwargs.get("accumulate", len(args) > 3 and name.startswith("index_put") and args[3]))
    return adds or "reduce" in kwargs or not (_MOVES.fullmatch(name) or _CHOOSES.fullmatch(name))


def _is_floating(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


# Any: the operation's arguments.
def _is_frozen_norm(name: str, args: Sequence[Any]) -> bool:
    """Return whether it is a batch norm that uses statistics it was given."""
    return "batch_norm" in name and ("no_training" in name or (len(args) > 5 and not args[5]))


# Any: the operation's arguments.
def _product_terms(one: torch.Tensor, other: torch.Tensor, args: Sequence[Any]) -> int:
    if other.dim() < 3 or len(args) <= 6:
        return int(one.shape[-1])
    transposed, groups = (bool(args[6]), int(args[8])) if len(args) > 8 else (False, 1)
    return other.numel() // other.shape[1] // groups if transposed else other[0].numel()


# Any: the operation and its arguments.
def _nonzero_sum(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    marks = (args[0] != 0).to(torch.float32)
    result = func(marks, *args[1:], **{**kwargs, "dtype": torch.float32})
    is_mean = func.overloadpacket.__name__ == "mean"
    return _most(result * (marks.numel() / max(1, result.numel())) if is_mean else result)


def _most(counts: torch.Tensor) -> int:
    return max(1, round(float(counts.max()))) if counts.numel() else 1


def _reduced(given: torch.Tensor, result: object) -> int:
    made = result if isinstance(result, (tuple, list)) else (result,)
    sizes = [each.numel() for each in made if isinstance(each, torch.Tensor) and _is_floating(each)]
    fewest = max(1, min((size for size in sizes if size), default=given.numel()))
    return math.ceil(given.numel() / fewest) if fewest < given.numel() else max(given.shape, default=1)
