"""How a budget of questions is spent on a problem: one seam, `solve(assignment)`, and the ways there are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from kernelwright.agent.strategies.base import (
    Assignment,
    AssignmentSpentError,
    Exemplar,
    NoAttemptError,
    Prompts,
    Question,
)
from kernelwright.agent.strategies.evolve import Evolve
from kernelwright.agent.strategies.imported import Imported
from kernelwright.agent.strategies.refine import Refine
from kernelwright.agent.strategies.sample import Sample
from kernelwright.evaluator import Record

AnyStrategy: TypeAlias = Annotated[Sample | Refine | Evolve | Imported, Field(discriminator="name")]

STRATEGIES: Final[Mapping[str, type[Record]]] = MappingProxyType(
    {"sample": Sample, "refine": Refine, "evolve": Evolve}
)
"""Those that ask; by the word people use."""

__all__ = [
    "STRATEGIES",
    "AnyStrategy",
    "Assignment",
    "AssignmentSpentError",
    "Evolve",
    "Exemplar",
    "Imported",
    "NoAttemptError",
    "Prompts",
    "Question",
    "Refine",
    "Sample",
]
