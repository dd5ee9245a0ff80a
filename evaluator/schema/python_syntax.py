"""Python source as a tree, parsed by one thread at a time."""

from __future__ import annotations

import ast
import contextlib
import threading
from typing import Final

_TURN: Final = threading.Lock()
"""CPython up to 3.12 counts the depth of a tree it hands out in one place for all threads: two that parse at
once raise `SystemError: AST constructor recursion depth mismatch` (python/cpython#106905)."""
_TRIES: Final = 5
"""Others in this process parse without asking for a turn, such as import hooks."""


def parse_python(source: str) -> ast.Module:
    """The tree of a module.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `ast.parse` does.
    """
    with _TURN:
        for _ in range(_TRIES - 1):
            with contextlib.suppress(SystemError):
                return ast.parse(source)
        return ast.parse(source)
