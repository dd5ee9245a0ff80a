"""Says whether two sources mean the same, and how far apart two are: comments and layout do not count."""

from __future__ import annotations

import ast
import re
from typing import Final

from kernelwright.agent.extraction.policy import SHINGLE_TOKENS
from kernelwright.evaluator import parse_python, sha256_text

# With its prefix: `u8"x"` is not `u8 "x"`.
_LITERAL: Final = r'(?<!\w)\w*+"(?:\\.|[^"\\\n])*"|(?<!\w)\w*+\'(?:\\.|[^\'\\\n])*\''
# Comments of C and CUDA, but not what looks like one inside a literal.
_COMMENT: Final = re.compile(rf"{_LITERAL}|//[^\n]*|/\*.*?\*/", re.DOTALL)
# Words of C++ or CUDA, whose layout means nothing; in a raw literal it does, and in any other text it may.
_IS_C: Final = re.compile(
    r"^\s*#\s*(?:include|define|pragma)\b|__global__|__device__|\b(?:at|std|torch)::", re.M
)
_RAW: Final = 'R"'
# Operators stay together, so that `a++ + b` and `a + ++b` differ.
_TOKEN: Final = re.compile(rf"{_LITERAL}|\w+|[-+*/%&|^<>=!]+|[^\w\s]")


def fingerprint(source: str) -> str:
    """A hash that is equal for sources which differ only in comments, docstrings and layout.

    Works on Python with C++ or CUDA inside its string literals; any other literal counts as it is. What is
    not Python is taken by its words.
    """
    return sha256_text(normalised(source))


def normalised(source: str) -> str:
    """The source in one canonical layout, without comments."""
    try:
        tree = parse_python(source)
        return ast.unparse(_Canonical().visit(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return " ".join(_TOKEN.findall(source))


def distance(one: str, other: str) -> float:
    """Difference of two sources, 0 to 1: the Jaccard distance of their runs of three tokens."""
    left, right = _shingles(one), _shingles(other)
    union = len(left | right)
    return 1.0 - len(left & right) / union if union else 0.0


class _Canonical(ast.NodeTransformer):
    """Drops docstrings, and comments and layout inside strings that hold C++ or CUDA."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        text = node.value
        if isinstance(text, str) and "\n" in text and _IS_C.search(text) and _RAW not in text:
            return ast.copy_location(ast.Constant(_without_layout(text)), node)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        # A part of a text does not tell where its literals and comments end.
        return node


def _without_layout(text: str) -> str:
    bare = _COMMENT.sub(lambda match: match[0] if match[0][0] != "/" else " ", text)
    # A directive ends with its line, and a blank before a parenthesis makes another macro of it.
    lines = [line.strip() for line in bare.replace("\\\n", " ").split("\n")]
    words = (f"\n{line}\n" if line.startswith("#") else " ".join(_TOKEN.findall(line)) for line in lines)
    return " ".join(line for line in words if line)


def _shingles(source: str) -> frozenset[tuple[str, ...]]:
    tokens = _TOKEN.findall(normalised(source))
    return frozenset(zip(*(tokens[start:] for start in range(SHINGLE_TOKENS)), strict=False))
