"""Attributes the work of a call to the candidate's own kernels or to a library.

The trace was taken in the candidate's process and is its claim, so a track is advice. Without a trace it is
never `own`, and where the built libraries contradict the trace it is `mixed`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

from kernelwright.evaluator.analysis import policy
from kernelwright.evaluator.analysis.elf_symbols import Symbols
from kernelwright.evaluator.backends.registry import BACKENDS
from kernelwright.evaluator.schema.evaluation import Attribution
from kernelwright.evaluator.schema.python_syntax import tree_of

_LIBRARY: Final = re.compile(
    r"(?:at|c10|cub|thrust|cudnn)::|cublas|cudnn|nvjet_|splitKreduce|cutlass_\d|cutlass__|"
    r"(?:volta|turing|ampere|hopper|blackwell|sm\d+)_\w*(?:gemm|gemv|xmma|conv|cudnn)|"
    r"triton_(?:poi|red|per|spl|for|unk|tem)_"
)
"""Kernels of libraries and of torch.compile (the last group), even where a candidate's library instantiates
them or its source has a function of that name."""
_NEUTRAL: Final = re.compile(
    r"Memcpy|Memset|aten::(empty\w*|new_\w+|zeros\w*|view\w*|_unsafe_view|reshape\w*|as_strided\w*|t|transpose|permute|"
    r"expand\w*|select|slice|narrow|squeeze|unsqueeze|contiguous|resolve_\w+|detach|alias|lift_fresh|to|_to_copy|"
    r"copy_|clone|fill_|zero_|resize_|set_|item|_local_scalar_dense)$"
)
"""Copies and allocations, which own kernels and library calls both need."""
_LOADERS: Final = frozenset(("CDLL", "PyDLL", "cdll", "LoadLibrary", "dlopen", "load_library", "pythonapi"))
"""Functions of ctypes, cffi and torch that open a library."""
_OPERATOR: Final = re.compile(r"(aten|mkldnn|mkl|quantized|prims|torchvision|onednn)::")


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One kernel or operator, summed over one call."""

    kind: str
    """`kernel` on a GPU; `operator` or `call`, the rest of the call, on a CPU."""
    name: str
    ms: float


def attribute(
    events: Sequence[TraceEvent], symbols: Symbols, source: str, *, trouble: str = ""
) -> Attribution:
    """The attribution of a candidate; `trouble` says why there is no trace."""
    named = kernel_names(source)
    own: list[TraceEvent] = []
    others: list[TraceEvent] = []
    for event in events:
        if event.ms <= 0 or _NEUTRAL.match(event.name):
            continue
        if _is_own(event, symbols, named):
            own.append(event)
        elif event.kind != "call":
            others.append(event)
    own_ms, library_ms = (sum(event.ms for event in part) for part in (own, others))
    if own_ms + library_ms <= 0:
        return _without_trace(symbols, named, trouble)
    share = own_ms / (own_ms + library_ms)
    track = "own" if share >= policy.OWN_SHARE else "mixed" if share > policy.MIXED_SHARE else "library"
    path = "profiler, symbols"
    named_libraries = (*symbols.uses, *_loaded(source))
    if track == "own" and named_libraries:
        track = "mixed"
        path = f"profiler; but the candidate names {', '.join(named_libraries[:3])}"
    return Attribution(track=track, own_share=round(share, 4), kernels=_shown(own, others), source=path)


def kernel_names(source: str) -> frozenset[str]:
    """Names of kernels that a source defines: CUDA in its strings, decorated Python functions."""
    return frozenset((*_cuda_names(source), *kernel_functions(tree_of(source))))


def _cuda_names(source: str) -> Iterator[str]:
    for declaration in source.split("__global__")[1:]:
        head = re.sub(r"__launch_bounds__\s*\([^)]*\)", "", declaration[: policy.DECLARATION_CHARACTERS])
        name = re.search(r"\b(\w++)\s*+\(", head)
        if name is not None:
            yield name[1]


def kernel_functions(tree: ast.Module) -> Iterator[str]:
    """Names of functions that a kernel language compiles: decorated, or passed to a decorator."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name, decorator_list=marks) if any(map(_is_authoring, marks)):
                yield name
            case ast.Call(func=mark, args=[ast.Name(id=name), *_]) if _is_authoring(mark):
                yield name


def _loaded(source: str) -> Iterator[str]:
    """Calls that open a library by its name; one that the module has built itself is none of them."""
    nodes, built = list(ast.walk(tree_of(source))), set()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called)):
                if _dotted(called)[-1:] in (["load_inline"], ["load"]):
                    built.add(name)
    for node in nodes:
        match node:
            case ast.Call(args=[ast.Name(id=name)]) if name in built:
                continue
            case ast.Call(args=[ast.Call(func=called)]) if _dotted(called)[-1:] == ["load_inline"]:
                continue
            case ast.Call(func=called) if _LOADERS.intersection(_dotted(called)):
                yield ".".join(_dotted(called))


def _is_authoring(mark: ast.expr) -> bool:
    """True for a kernel language's decorator, whatever its arguments; `torch.jit` writes no kernels."""
    words = _dotted(mark.func if isinstance(mark, ast.Call) else mark)
    return any(word in _decorators() and before != "torch" for before, word in pairwise(("", *words)))


def _dotted(named: ast.expr) -> list[str]:
    """The words of `a.b.c`, iteratively: a hostile source may nest deeply."""
    words = []
    while isinstance(named, ast.Attribute):
        words.append(named.attr)
        named = named.value
    if isinstance(named, ast.Name):
        words.append(named.id)
    return words[::-1]


def base_name(kernel: str) -> str:
    """`scale` of `void my::scale<float, 4>(float*, int)`."""
    text = re.sub(r"^(void|int|float)\s+", "", kernel.replace("(anonymous namespace)::", ""))
    return re.split(r"[<(]", text, maxsplit=1)[0].rpartition("::")[2].strip()


def _is_own(event: TraceEvent, symbols: Symbols, named: frozenset[str]) -> bool:
    if event.kind == "call":
        # Time outside of operators is the interpreter's, unless the candidate built a library.
        return symbols.libraries > 0
    if event.kind == "operator":
        return symbols.libraries > 0 and "::" in event.name and not _OPERATOR.match(event.name)
    plain = event.name.removeprefix("void ").replace("(anonymous namespace)::", "")
    if _LIBRARY.match(plain):
        return False
    base = base_name(event.name)
    if base in named or any(name in named for name in _generated_from(base)):
        return True
    encoded = re.compile(rf"(?<!\d){len(base)}{re.escape(base)}")
    return bool(base) and any(base == symbol or encoded.search(symbol) for symbol in symbols.defines)


def _generated_from(kernel: str) -> Iterator[str]:
    """Names that a compiled kernel's function may have had in the source."""
    for pattern in _compiled_names():
        found = pattern.fullmatch(kernel)
        groups = found.groupdict() if found else {}
        if "name" in groups:
            yield groups["name"]
        if "start" in groups:
            words = groups["start"].split("_")
            yield from ("_".join(words[:count]) for count in range(1, len(words) + 1))


@cache
def _compiled_names() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(text) for backend in BACKENDS.values() for text in backend.compiled_names)


@cache
def _decorators() -> frozenset[str]:
    marks = (mark for backend in BACKENDS.values() for mark in backend.decorators)
    return frozenset(mark.rpartition(".")[2] for mark in marks)


def _without_trace(symbols: Symbols, named: frozenset[str], trouble: str) -> Attribution:
    """Decide by builds and source alone: `library` where neither has a kernel, else `unknown`."""
    track = "unknown" if symbols.libraries or named else "library"
    return Attribution(track=track, source=f"symbols; no trace{': ' + trouble if trouble else ''}")


def _shown(own: Iterable[TraceEvent], others: Iterable[TraceEvent]) -> tuple[str, ...]:
    marked = [(event.ms, f"own: {event.name}") for event in own]
    marked += [(event.ms, f"library: {event.name}") for event in others]
    return tuple(text[:160] for _, text in sorted(marked, reverse=True)[: policy.SHOWN_KERNELS])
