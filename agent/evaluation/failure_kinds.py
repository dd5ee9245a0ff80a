"""The kinds of failure that travel between machines, and the errors they are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Self

from kernelwright.evaluator import Cancelled, ConfigError, EvaluatorError, MachineError, ProblemError, Record

_ERRORS: Final[Mapping[str, type[EvaluatorError]]] = MappingProxyType(
    {"problem": ProblemError, "config": ConfigError, "machine": MachineError, "cancelled": Cancelled}
)


class EvaluationFailure(Record):
    """The reason why there is no result; never a score."""

    kind: str
    """`machine`, `problem`, `config` or `evaluator`."""
    message: str

    @classmethod
    def of(cls, error: Exception) -> Self:
        """The failure that an error is; `evaluator` is the kind of whatever else an evaluator raises."""
        kinds = (kind for kind, known in _ERRORS.items() if isinstance(error, known))
        return cls(kind=next(kinds, "evaluator"), message=told(error))

    def error(self, where: str) -> EvaluatorError:
        """The error that it is, of an evaluator somewhere else."""
        return _ERRORS.get(self.kind, EvaluatorError)(f"{where}: {self.message}")


def told(error: Exception) -> str:
    """The message of an error, with the name of one that no evaluator should raise."""
    name = "" if isinstance(error, EvaluatorError) else f"{type(error).__name__}: "
    return f"{name}{error}"
