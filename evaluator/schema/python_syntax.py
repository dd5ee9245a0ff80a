"""Python source as a tree, parsed by one thread at a time."""

from __future__ import annotations

import ast
import contextlib
import io
import threading
import tokenize
from typing import Final

from kernelwright.evaluator.schema.policy import PARSE_TRIES

_LOCK: Final = threading.Lock()
"""CPython up to 3.12 counts the depth of a tree in one place for all threads: two that parse at once raise
`SystemError: AST constructor recursion depth mismatch` (python/cpython#106905)."""


_ENCODINGS: Final = ("utf-8", "utf-8-sig", "ascii")


def tree_of(source: str) -> ast.Module:
    """Parse a module for what is advice only: the tree is empty where it is no Python."""
    try:
        return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def parse_python(source: str) -> ast.Module:
    """Parse a module; raises SyntaxError, ValueError, RecursionError or MemoryError as `ast.parse` does.

    A declared encoding other than UTF-8 is a SyntaxError: Python would run another text than readers see.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source.encode("utf-8")).readline)
    if encoding not in _ENCODINGS:
        raise SyntaxError(f"the file declares the encoding {encoding}; leave that out, or declare utf-8")
    with _LOCK:
        for _ in range(PARSE_TRIES - 1):
            with contextlib.suppress(SystemError):
                return ast.parse(source)
        return ast.parse(source)
