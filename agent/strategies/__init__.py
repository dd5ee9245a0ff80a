"""How a budget of questions is spent on a problem: one seam, `solve(assignment)`, and the ways there are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from agent.strategies.evolve import Evolve
from agent.strategies.imported import Imported
from agent.strategies.refine import Refine
from agent.strategies.sample import Sample
from agent.strategies.seam import (
    Assignment,
    AssignmentSpentError,
    Exemplar,
    NoAttemptError,
    Prompts,
    Question,
)
from evaluator import Record

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
