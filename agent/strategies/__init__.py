"""Ways to spend a budget of questions on a problem; the seam is `base.Strategy`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, SerializeAsAny

from kernelwright.agent.strategies.base import (
    Assignment,
    AssignmentSpentError,
    Exemplar,
    Independent,
    NoAttemptError,
    Prompts,
    Question,
    Strategy,
    find_strategy,
)
from kernelwright.agent.strategies.sample import Imported
from kernelwright.evaluator import ConfigError


def strategy_type(name: str) -> type[Strategy]:
    """Return the strategy of a recorded name, `imported` included; raises what `find_strategy` raises."""
    return Imported if name == Imported.model_fields["name"].default else find_strategy(name)


def attempts_are_one_sample(name: str) -> bool:
    """True if all attempts at a problem are one sample; assumed of unknown strategies."""
    try:
        return strategy_type(name).independent is Independent.ASSIGNMENT
    except ConfigError:
        return True


def _load(value: object) -> object:
    if not isinstance(value, dict):
        return value
    try:
        return strategy_type(str(value.get("name"))).model_validate(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None


AnyStrategy: TypeAlias = Annotated[SerializeAsAny[Strategy], BeforeValidator(_load)]
"""A strategy in a plan, validated and serialized by the class that `name` selects."""

__all__ = [
    "AnyStrategy",
    "Assignment",
    "AssignmentSpentError",
    "Exemplar",
    "Imported",
    "Independent",
    "NoAttemptError",
    "Prompts",
    "Question",
    "Strategy",
    "attempts_are_one_sample",
    "find_strategy",
]
