"""Finds the places of a file where its code can be changed, and changes them."""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"), ast.LShift: ("<<", ">>"),
}  # fmt: skip
_OTHER_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "amax": "amin", "maximum": "minimum"}
_NO_BEHAVIOUR = ("decorator_list", "annotation", "returns", "type_comment")
_TOLD_BY_NO_TEST = ("strict", "frozen", "slots", "kw_only", "dim", "device")
"""Keywords whose value matters to a reader, or is one of a kind."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the text between two places of a file."""

    path: str
    begin: int
    end: int
    text: str
    key: str
    """Its name as long as its line, its function and the kind of change stay."""

    def changed(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def diff(self, source: bytes) -> str:
        """The changed lines."""
        before, after = (text.decode().splitlines() for text in (source, self.changed(source)))
        return "\n".join([*difflib.unified_diff(before, after, self.path, lineterm="", n=0)][2:])


class Finder:
    """Finds what can be changed in one file."""

    def __init__(self, root: Path, path: str, seed: int) -> None:
        self.path, self.source, self._seed = path, (root / path).read_bytes(), seed
        self._lines = [0]
        for line in self.source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._seen: Counter[str] = Counter()
        self._where = ""

    def mutants(self, node: ast.AST | None = None) -> Iterator[Mutant]:
        """Every mutant of the file, or of a part of it."""
        node = node or ast.parse(self.source)
        if isinstance(node, ast.JoinedStr):
            return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            self._where = node.name
        yield from self._operators(node)
        yield from self._values(node)
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                skipped = isinstance(child, ast.keyword) and child.arg in _TOLD_BY_NO_TEST
                if isinstance(child, ast.AST) and not skipped and name not in _NO_BEHAVIOUR:
                    yield from self.mutants(child)

    def _operators(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare(ops=[op], left=left, comparators=[right]):
                pass
            case ast.BinOp(op=op, left=left, right=right) | ast.BoolOp(op=op, values=[left, right, *_]):
                pass
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                yield self._replaced(node, self._text(operand))
                return
            case _:
                return
        old, new = _SWAPS.get(type(op), ("", ""))
        begin, end = self._place(left)[1], self._place(right)[0]
        place = self.source[begin:end].decode().find(old)
        if old and place >= 0:
            yield self._made(begin + place, begin + place + len(old), new)

    def _values(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Constant(value=bool(flag)):
                yield self._replaced(node, str(not flag))
            case ast.Constant(value=int(number) | float(number)):
                is_policy = self.path.endswith("policy.py")
                smaller = number // 10 if isinstance(number, int) else number / 10
                for other in (number * 10 or 1, smaller) if is_policy else (number + 1,):
                    yield self._replaced(node, repr(other))
            case ast.Call(func=(ast.Name(id=name) | ast.Attribute(attr=name)) as called) if (
                name in _OTHER_CALLS
            ):
                yield self._replaced(called, self._text(called)[: -len(name)] + _OTHER_CALLS[name])
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise(exc=ast.expr()):
                yield self._replaced(node, "pass")
            case ast.If(test=test) | ast.IfExp(test=test):
                yield self._replaced(test, "False")
                yield self._replaced(test, "True")
            case ast.While(test=test):
                yield self._replaced(test, "False")

    def _replaced(self, node: ast.expr | ast.stmt, text: str) -> Mutant:
        return self._made(*self._place(node), text)

    def _made(self, begin: int, end: int, text: str) -> Mutant:
        first, last = self.source.rfind(b"\n", 0, begin) + 1, self.source.find(b"\n", begin)
        about = f"{self.path} {self._where} {self.source[first:last].strip().decode()} {begin - first} {text}"
        self._seen[about] += 1
        key = hashlib.sha256(f"{self._seed} {about} {self._seen[about]}".encode()).hexdigest()[:16]
        return Mutant(self.path, begin, end, text, key)

    def _place(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        lines = self._lines
        return lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        return self.source[slice(*self._place(node))].decode()
