"""Keeps torch's compiler out of processes that compile nothing: importing it takes longer than torch itself.

On tensors without data torch computes in Python, asks its compiler and sympy about each number whether that
is a symbol, and has functions excepted from being compiled. About plain numbers the answers are plain.
Whatever else is asked brings the real ones.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from torch.utils._python_dispatch import TorchDispatchMode

# Any: whatever torch asks its compiler about.
Answer = Callable[..., Any]

_SYMBOLS: Final = "torch.fx.experimental.symbolic_shapes"
_COMPILER: Final = "torch._dynamo"
_ALGEBRA: Final = "sympy"
_PLACES: Final = (_SYMBOLS, _COMPILER, _ALGEBRA)
_PACKAGES: Final = (_COMPILER, _ALGEBRA)


def _equal(some: Any, other: Any) -> bool:
    if isinstance(some, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(some) == len(other) and all(map(_equal, some, other))
    return bool(some == other)


def _excepted(function: Answer, recursive: bool = True, **options: Any) -> Answer:
    return function


_ABOUT_NUMBERS: Final[Mapping[str, Answer]] = {
    "expect_true": bool,
    "guard_or_false": bool,
    "guard_or_true": bool,
    "guard_size_oblivious": bool,
    "guarding_hint_or_throw": lambda number: number,
    "has_guarding_hint": lambda number: True,
    "has_hint": lambda number: True,
    "is_nested_int": lambda number: False,
    "size_hint": lambda number, fallback=None: number,
    "statically_known_true": bool,
    "sym_and": lambda *each: all(each),
    "sym_eq": _equal,
    "sym_or": lambda *each: any(each),
}
"""Its answers about plain numbers; torch's versions ask by different names."""


class _Expression:
    """A type that no number has."""


class _StandIn(ModuleType):
    """Stands in for a part of the compiler; asked for more, it is replaced by the real one."""

    def __getattr__(self, name: str) -> Any:
        match self.__name__, name:
            case "torch._dynamo", "disable":
                return _excepted
            case "sympy", "Basic":
                return _Expression
            case "torch.fx.experimental.symbolic_shapes", _ if name in _ABOUT_NUMBERS:
                return _cautious(name)
        if name.startswith("__") and not (name == "__path__" and self.__name__ in _PACKAGES):
            raise AttributeError(name)
        return _real(self.__name__, name)


class DispatchMode(TorchDispatchMode):
    """A mode of torch's that sees every operation, without the compiler."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]  # torch's own

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import its compiler for that, which takes as long as importing torch."""
        return False


@contextmanager
def without_compiler() -> Iterator[None]:
    """Let torch work on tensors without data as if it had no compiler; other threads must not use it."""
    for name in _PLACES:
        if name not in sys.modules:
            sys.modules[name] = _StandIn(name)
    try:
        yield
    finally:
        _make_way()


def _cautious(name: str) -> Answer:

    def answer(*values: Any, **options: Any) -> Any:
        if all(map(_is_plain, values)):
            return _ABOUT_NUMBERS[name](*values, **options)
        return _real(_SYMBOLS, name)(*values, **options)

    return answer


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float, complex))


def _real(module: str, name: str) -> Any:
    _make_way()
    return getattr(importlib.import_module(module), name)


def _make_way() -> None:
    for name in _PLACES:
        if isinstance(sys.modules.get(name), _StandIn):
            del sys.modules[name]
