"""Reads Python source without running it: does it parse, define `ModelNew`, which names does it lack."""

from __future__ import annotations

import ast
import builtins
import re
import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kernelwright.agent.extraction.policy import LONGEST_MODULE
from kernelwright.evaluator import parse_python

_MODEL: Final = re.compile(r"^[ \t]*class[ \t]+ModelNew\b", re.MULTILINE)
_ALWAYS_THERE: Final = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__spec__", "__path__"}
_ELIDED: Final = re.compile(r"#[^\n#]*(?:\.\.\.|…|same as|unchanged|as before|rest of)", re.IGNORECASE)
_WARNINGS: Final = threading.Lock()
"""`catch_warnings` swaps process-wide state; parsing threads must not interleave their swaps."""


@dataclass(frozen=True, slots=True)
class Module:
    """Source that parses and defines `ModelNew` at its top level, or the reason why it is none."""

    code: str
    tree: ast.Module | None = None
    flaw: str = ""
    """Why it is no module: a syntax error with its line, or nothing defines `ModelNew`."""
    flaw_line: int = 0
    """Line of the syntax error, from 1; 0 when there is none."""

    @property
    def is_model(self) -> bool:
        """True where it can be a candidate."""
        return not self.flaw

    @property
    def is_elided(self) -> bool:
        """True where it is an excerpt with parts left out: no import, and `...` or a comment for code."""
        if self.imports_anything:
            return False
        if _ELIDED.search(self.code):
            return True
        functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        bodies = (node.body for node in self._nodes() if isinstance(node, functions))
        return any(
            isinstance(last := body[-1], ast.Expr)
            and isinstance(last.value, ast.Constant)
            and last.value.value is ...
            for body in bodies
        )

    @property
    def imports_anything(self) -> bool:
        """True where it has an import at all."""
        return any(isinstance(node, ast.Import | ast.ImportFrom) for node in self._nodes())

    @property
    def bound(self) -> frozenset[str]:
        """Names bound anywhere in it."""
        return frozenset(name for node in self._nodes() for name in _bound_by(node))

    @property
    def unresolved(self) -> frozenset[str]:
        """Names it uses and never binds; none when a star import could bind them."""
        bound = self.bound
        if "*" in bound:
            return frozenset()
        used = {node.id for node in self._nodes() if isinstance(node, ast.Name)}
        return frozenset(used - bound - _ALWAYS_THERE)

    def source_names(self, keyword: str) -> list[str]:
        """Plain names passed to this keyword of any call, alone or in a list."""
        values = [
            item.value
            for node in self._nodes()
            if isinstance(node, ast.Call)
            for item in node.keywords
            if item.arg == keyword
        ]
        nodes = [element for value in values for element in getattr(value, "elts", [value])]
        return list(dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name)))

    def _nodes(self) -> Iterable[ast.AST]:
        return ast.walk(self.tree) if self.tree else ()


def mentions_model(text: str) -> bool:
    """True where a line begins a class `ModelNew`."""
    return _MODEL.search(text) is not None


def last_model_offset(text: str) -> int:
    """Offset of the last unindented `class ModelNew`; -1 without one."""
    return max((match.start() for match in _MODEL.finditer(text) if match.group()[0] == "c"), default=-1)


def parse(code: str) -> Module:
    """Read any Python source; a flaw is set only when it does not parse."""
    if len(code) > LONGEST_MODULE:
        return Module(code, flaw=f"longer than {LONGEST_MODULE} characters")
    try:
        with _WARNINGS, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parse_python(code)
    except SyntaxError as error:
        line = error.lineno or 1
        return Module(code, flaw=f"syntax error in line {line}: {error.msg}", flaw_line=line)
    except (ValueError, RecursionError, MemoryError) as error:
        return Module(code, flaw=f"cannot be parsed: {type(error).__name__}", flaw_line=1)
    return Module(code, tree=tree)


def read_module(code: str) -> Module:
    """Read source that should be a candidate."""
    module = parse(code)
    if module.tree is not None and not _defines_model(module.tree.body):
        return Module(code, tree=module.tree, flaw="no class ModelNew at the top level")
    return module


def _defines_model(body: Iterable[ast.AST]) -> bool:
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef) and node.name == "ModelNew":
            return True
        if isinstance(node, ast.If | ast.Try | ast.ExceptHandler | ast.With):
            waiting += ast.iter_child_nodes(node)
    return False


def _bound_by(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return [name]
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.alias(name=name, asname=asname):
            return [asname or name.partition(".")[0]]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return list(names)
        case _:
            return []
