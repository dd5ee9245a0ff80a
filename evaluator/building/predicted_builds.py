"""Predicts builds from a candidate's text, so that they can begin before it runs.

A prediction is what torch's `load_inline` would be asked for with literal arguments. A wrong one wastes a
build and decides nothing: a candidate gets what it asks for when it runs.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from kernelwright.evaluator.building import policy
from kernelwright.evaluator.building.build_request import BuildRequest, InvalidRequest, parse_request
from kernelwright.evaluator.schema.python_syntax import tree_of

_BUILDER: Final = "load_inline"
_HOME: Final = "torch.utils.cpp_extension"
"""The module it is imported from."""
_PACKAGES: Final = sys.stdlib_module_names | {"torch"}
"""Packages that are surely here: importing them does not fail."""
_PLACES: Final = ("name", "cpp_sources", "cuda_sources")
"""Its positional parameters whose order all versions of torch share."""
_TEXTS: Final = ("cpp_sources", "cuda_sources", "extra_cflags", "extra_cuda_cflags", "extra_ldflags")
_SWITCHES: Final = ("is_python_module", "with_pytorch_error_handling", "no_implicit_headers")
_IGNORED: Final = frozenset({"verbose", "build_directory", "keep_intermediates", "use_pch"})


class _Unpredictable(Exception):
    """An argument is no literal, or too large."""


def predicted_builds(source: str) -> list[BuildRequest]:
    """Return the requests of `load_inline` calls with literal arguments, in the order of the text."""
    nodes = list(ast.walk(tree_of(source)))
    calls = (node for node in nodes if isinstance(node, ast.Call) and _name(node.func) == _BUILDER)
    literals, found = _Literals.of(nodes), []
    for call in islice(calls, policy.MAX_PREDICTED_BUILDS):
        try:
            found.append(parse_request(_request(call, literals)))
        except (_Unpredictable, InvalidRequest, RecursionError, ValueError):  # text of a huge number
            continue
    return found


def unavoidable_build(source: str) -> BuildRequest | None:
    """Return the request of a `load_inline` call that the module surely comes to; None if nothing is sure.

    Before that call stand imports of torch and the standard library, definitions, and names of literals only:
    where its build fails, loading the module fails.
    """
    tree = tree_of(source)
    literals, is_imported = _Literals.of(list(ast.walk(tree))), False
    for statement in getattr(tree, "body", ()):
        match statement:
            case (
                ast.Assign(value=ast.Call(func=ast.Name(id=name)) as call)
                | ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call)
            ) if name == _BUILDER and is_imported:
                try:
                    return parse_request(_request(call, literals))
                except (_Unpredictable, InvalidRequest, RecursionError, ValueError):
                    return None
            case ast.ImportFrom(module=module, names=names) if module == _HOME:
                is_imported |= any(each.name == _BUILDER and each.asname is None for each in names)
            case _ if not _passes(statement, literals):
                return None
    return None


def _passes(statement: ast.stmt, literals: _Literals) -> bool:
    """Return whether Python surely passes a statement and `load_inline` is the same after it."""
    match statement:
        case ast.Import(names=names):
            return all(_is_here(each.name) and each.asname != _BUILDER for each in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            return _is_here(module) and all(_BUILDER not in (each.name, each.asname) for each in names)
        case ast.FunctionDef(name=name, decorator_list=[], args=arguments):
            return name != _BUILDER and not any(isinstance(node, ast.Call) for node in ast.walk(arguments))
        case ast.ClassDef(name=name, decorator_list=[], keywords=[], body=body):
            return name != _BUILDER and all(_passes(each, literals) for each in body)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            try:
                literals.value(value)
            except (_Unpredictable, RecursionError):
                return False
            return name != _BUILDER
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return True
    return False


def _is_here(module: str) -> bool:
    return module.partition(".")[0] in _PACKAGES


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


@dataclass(slots=True)
class _Literals:
    """Values of literal expressions, and of names that are assigned once."""

    assigned: dict[str, ast.expr]
    steps: int = 0

    @classmethod
    def of(cls, nodes: list[ast.AST]) -> _Literals:
        stores = Counter(
            node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        assigned = {}
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if stores[name] == 1:
                    assigned[name] = value
        return cls(assigned)

    def value(self, node: ast.expr) -> Any:  # Any: whatever Python literals may be
        """Return the value of an expression; raises _Unpredictable where it is no literal, or too large."""
        self.steps += 1
        if self.steps > policy.MAX_PREDICTION_STEPS:
            raise _Unpredictable
        match node:
            case ast.Constant(value=str() | int() | None as value):
                return value
            case ast.Name(id=name) if name in self.assigned:
                return self.value(self.assigned[name])
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [self.value(element) for element in elements]
            case ast.Dict(keys=keys, values=values) if all(keys):
                pairs = zip(keys, values, strict=True)
                return {self._text(key): self.value(value) for key, value in pairs if key is not None}
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._sum(self.value(left), self.value(right))
            case ast.JoinedStr(values=parts):
                return functools.reduce(self._sum, map(self._part, parts), "")
            case ast.Call(func=ast.Attribute(value=text, attr="strip"), args=[], keywords=[]):
                return self._text(text).strip()
        raise _Unpredictable

    def _part(self, node: ast.expr) -> str:
        """Return the text of one part of an f-string."""
        if isinstance(node, ast.FormattedValue):
            if node.conversion != -1 or node.format_spec is not None:
                raise _Unpredictable
            return str(self.value(node.value))
        return self._text(node)

    def _text(self, node: ast.expr) -> str:
        value = self.value(node)
        if not isinstance(value, str):
            raise _Unpredictable
        return value

    @staticmethod
    def _sum(one: Any, other: Any) -> Any:
        """Join both, if they are of a kind and not too long: sums of sums grow fast."""
        if type(one) is not type(other) or not isinstance(one, str | list):
            raise _Unpredictable
        most = policy.MAX_PREDICTED_CHARACTERS if isinstance(one, str) else policy.MAX_REQUEST_PARTS
        if len(one) + len(other) > most:
            raise _Unpredictable
        return one + other


def _request(call: ast.Call, literals: _Literals) -> dict[str, Any]:
    """Return the fields of a build request, with torch's defaults."""
    if len(call.args) > len(_PLACES) or any(keyword.arg is None for keyword in call.keywords):
        raise _Unpredictable
    given = dict(zip(_PLACES, call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    values = {name: literals.value(node) for name, node in given.items() if name not in _IGNORED}
    request: dict[str, Any] = {name: _listed(values.pop(name, None)) for name in _TEXTS}
    request |= {name: bool(values.pop(name)) for name in _SWITCHES if name in values}
    functions, with_cuda = values.pop("functions", None), values.pop("with_cuda", None)
    functions = [functions] if isinstance(functions, str) else functions
    request |= {
        "name": values.pop("name", None),
        "functions": {name: name for name in functions} if isinstance(functions, list) else functions,
        "with_cuda": bool(request["cuda_sources"] if with_cuda is None else with_cuda),
    }
    if any(values.values()):  # such as folders of headers, which only running shows
        raise _Unpredictable
    return request


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value or [])
