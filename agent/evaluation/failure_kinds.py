"""The kinds of failure that travel between machines, and the errors they are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kernelwright.evaluator import Cancelled, ConfigError, EvaluatorError, MachineError, ProblemError

EVALUATOR: Final = "evaluator"
_ERRORS: Final[Mapping[str, type[EvaluatorError]]] = MappingProxyType(
    {"problem": ProblemError, "config": ConfigError, "machine": MachineError, "cancelled": Cancelled}
)


def kind_of(error: Exception) -> str:
    """The kind of an error; `evaluator` for whatever else an evaluator raises."""
    return next((kind for kind, known in _ERRORS.items() if isinstance(error, known)), EVALUATOR)


def error_of(kind: str, message: str) -> EvaluatorError:
    """The error of a kind."""
    return _ERRORS.get(kind, EvaluatorError)(message)


def told(error: Exception) -> str:
    """The message of an error, with the name of one that no evaluator should raise."""
    name = "" if isinstance(error, EvaluatorError) else f"{type(error).__name__}: "
    return f"{name}{error}"
