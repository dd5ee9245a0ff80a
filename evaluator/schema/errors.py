"""Failures that are not a candidate's: bad input, a bad problem, this machine, this program.

A failure of a candidate is a `Status` instead.
"""

from __future__ import annotations

from kernelwright.evaluator.schema.visible_text import visible


class EvaluatorError(Exception):
    """The evaluator or its machine failed; nothing is scored."""


class MachineError(EvaluatorError):
    """This machine lacks something an evaluation needs: a compiler, a sandbox, a GPU, disk space."""


class ProblemError(EvaluatorError):
    """A problem file is missing, malformed, or its reference does not run here."""


class DeviceFull(ProblemError):
    """A problem needs more memory of its device than is free."""


class ConfigError(EvaluatorError):
    """An unknown backend, device, dtype, shape name or flag; the message lists the known ones."""


class KernelError(EvaluatorError):
    """A saved kernel in a sandbox raised, did not answer, or its process ended."""

    def __init__(self, message: str) -> None:
        """Say what happened; the kernel's own words may be among it, and must not steer a terminal."""
        super().__init__(visible(message))


class Cancelled(EvaluatorError):
    """The caller cancelled the evaluation; nothing is scored."""
