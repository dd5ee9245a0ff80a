"""Chooses saved kernels to show for a problem: those of problems with similar operators and shapes.

Similarity compares the calls in the problems' sources and the sizes of their largest inputs, not the kernels
themselves. A problem's own kernels are left out by default.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kernelwright.agent.extraction.fingerprint import fingerprint
from kernelwright.agent.prompting.policy import LEAST_SIMILARITY, OPERATORS_SHARE
from kernelwright.agent.records.score_policy import exclusion_reason, slower
from kernelwright.agent.workspace import Kernel
from kernelwright.evaluator import EvaluationConfig, Problem, ProblemSignature, parse_python

_ARITHMETIC: Final = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
}
_SAME: Final = {
    **dict.fromkeys(("mm", "bmm", "addmm", "linear", "einsum", "baddbmm"), "matmul"),
    **dict.fromkeys(("swish",), "silu"),
    **dict.fromkeys(("amax", "maximum"), "max"),
    **dict.fromkeys(("amin", "minimum"), "min"),
}
_PLUMBING: Final = frozenset(
    {
        *("__init__", "super", "parameter", "register_buffer", "sequential", "modulelist", "append", "range"),
        *("len", "size", "dim", "view", "reshape", "contiguous", "flatten", "unsqueeze", "squeeze", "expand"),
        *("permute", "transpose", "float", "half", "to", "int", "empty", "zeros", "ones", "tensor"),
        *("normal_", "uniform_"),
    }
)
"""Calls that do no arithmetic."""
_CHEAP: Final = frozenset(_ARITHMETIC.values()) - {"matmul"}
_ASIDE: Final = frozenset(("get_inputs", "get_init_inputs"))


@dataclass(frozen=True, slots=True)
class Traits:
    """The features by which problems are compared."""

    operators: frozenset[str]
    shape: tuple[int, ...] | None
    """Shape of the largest input; None if unknown."""


@dataclass(frozen=True, slots=True)
class Known:
    """A saved kernel and its problem."""

    kernel: Kernel
    problem: Problem
    traits: Traits


def traits(problem: Problem, description: ProblemSignature | None) -> Traits:
    """Return a problem's traits; `description` has its shapes."""
    inputs = description.inputs if description else ()
    largest = max(inputs, key=lambda one: one.elements, default=None)
    return Traits(operators=_operators(problem.source), shape=largest.shape if largest else None)


def likeness(one: Traits, other: Traits) -> float:
    """Return the similarity of two problems, 0 to 1; 0 if they share no substantial operator."""
    union = one.operators | other.operators
    shared = sum(map(_weight, one.operators & other.operators))
    operators = shared / sum(map(_weight, union)) if union else 0.0
    if operators < LEAST_SIMILARITY:
        return 0.0
    return OPERATORS_SHARE * operators + (1 - OPERATORS_SHARE) * _shape_likeness(one.shape, other.shape)


def usable(kernel: Kernel, config: EvaluationConfig) -> bool:
    """True if a kernel does its own work, was timed in the precision of `config`, and is not slower."""
    best = kernel.score
    own = best.attribution is None or best.attribution.track != "library"
    return (
        own
        and best.speedup is not None
        and not (slower(best) or exclusion_reason(best))
        and (best.config.math, best.config.dtype) == (config.math, config.dtype)
    )


def nearest(
    problem: Problem, mine: Traits, known: Iterable[Known], count: int, *, own: bool = False
) -> list[Kernel]:
    """Return the fastest kernel of each of the most similar problems, most similar first."""
    fastest: dict[str, Known] = {}
    for one in known:
        if not own and is_same(problem, one.problem):
            continue
        both = fastest.get(one.problem.sha, one), one
        fastest[one.problem.sha] = max(both, key=lambda of: (of.kernel.score.speedup or 0.0, of.kernel.id))
    ranked = sorted(
        ((likeness(mine, one.traits), one.kernel.id, one.kernel) for one in fastest.values()),
        key=lambda row: (-row[0], row[1]),
    )
    return [kernel for score, _, kernel in ranked if score > 0][:count]


def is_same(one: Problem, other: Problem) -> bool:
    """True if two problems have the same id, or sources that differ only in comments and layout."""
    return one.id == other.id or one.sha == other.sha or fingerprint(one.source) == fingerprint(other.source)


def _operators(source: str) -> frozenset[str]:
    found: set[str] = set()
    for node in _nodes(parse_python(source).body):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
                found.add(_SAME.get(name.lower(), name.lower()))
            case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
                found.add(_ARITHMETIC[type(op)])
    return frozenset(found - _PLUMBING)


def _nodes(body: Sequence[ast.stmt]) -> Iterable[ast.AST]:
    for statement in body:
        if not (isinstance(statement, ast.FunctionDef) and statement.name in _ASIDE):
            yield from ast.walk(statement)


def _weight(operator: str) -> float:
    return 0.25 if operator in _CHEAP else 1.0


def _shape_likeness(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> float:
    if one is None or other is None:
        return 0.0
    apart = abs(math.log2(max(1, math.prod(one))) - math.log2(max(1, math.prod(other))))
    return (0.5 if len(one) == len(other) else 0.0) + 0.5 / (1.0 + apart / 4.0)
