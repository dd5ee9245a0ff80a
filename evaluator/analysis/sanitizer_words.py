"""Words by which a program tells that a sanitizer watches it, or asks one to look away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from kernelwright.evaluator.schema.python_syntax import tree_of

TOOLS: Final = "asan|lsan|tsan|msan|hwasan|ubsan|sanitizer"
_WORDS: Final = re.compile(
    r"__SANITIZE_\w+|\b__has_feature\s*\(\s*\w*_sanitizer\b|\b(?:__)?no_sanitize\w*|\bdisable_sanitizer_\w+"
    rf"|\b__(?:{TOOLS})_\w+|\b(?:A|L|T|M|HWA|UB)SAN_OPTIONS\b|\blib(?:a|l|t|m|hwa|ub)san\b|\bLD_PRELOAD\b"
    r"|\bCUDA_INJECTION\w*|\bNV_SANITIZER\w*|\bcompute-sanitizer\b|\blibsanitizer\w*|\blibInterceptor\w*"
    r"|/proc/[\w-]+/(?:s?maps|map_files|environ)\b|\bdl_iterate_phdr\b|\bRUNNING_ON_VALGRIND\b"
)
_COMMENT: Final = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def words_of_code(code: str) -> Iterator[tuple[int, str]]:
    """Lines, from 0, and words of C, C++ or CUDA code or of any other text, comments left out."""
    plain = _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else "\n" * found[0].count("\n"), code)
    for found in _WORDS.finditer(plain):
        yield plain.count("\n", 0, found.start()), found[0]


def words_of_module(source: str) -> list[tuple[int, str]]:
    """Lines, from 1, and words of a Python module: its strings but for docstrings, and its names."""
    texts = _texts(tree_of(source))
    return sorted({(line + offset, word) for line, text in texts for offset, word in words_of_code(text)})


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    skipped: set[ast.expr] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as docstring):
                skipped.add(docstring)
            case ast.Constant(value=str(text)) if node not in skipped:
                yield node.lineno, text
            case ast.Constant(value=bytes(octets)):
                yield node.lineno, octets.decode("latin-1")
            case ast.Attribute(attr=name) | ast.Name(id=name):
                yield node.lineno, name
