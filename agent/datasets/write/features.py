"""The columns of every dataset and their types: one declaration for the card, for Parquet and the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from kernelwright.agent.datasets.export_settings import Format

Feature: TypeAlias = "str | list[Feature] | dict[str, Feature]"
"""A type's name (`string`, `float64`, `int64`, `bool`), a list of one type, or a record's fields."""

Row: TypeAlias = dict[str, object]

_MESSAGES: Final[Feature] = [{"role": "string", "content": "string"}]

SOURCE: Final[dict[str, Feature]] = {
    "run": "string",
    "attempt": "string",
    "backend": "string",
    "provider": "string",
    "model": "string",
    "answered_by": "string",
    "strategy": "string",
    "sample": "int64",
    "turn": "int64",
    "completed_at": "string",
    "license": "string",
    "origin": "string",
    "candidate_sha": "string",
    "evaluation_sha": "string",
    "status": "string",
    "speedup": "float64",
    "speedup_low": "float64",
    "speedup_high": "float64",
    "against": "string",
    "candidate_ms": "float64",
    "hardware": "string",
    "math": "string",
    "dtype": "string",
    "shapes": "string",
    "passes": "string",
    "track": "string",
    "sanitized": "bool",
}
"""Where an attempt comes from, under which licence, and what was measured."""

_PROBLEM: Final[dict[str, Feature]] = {"problem": "string", "problem_sha": "string"}
_LENGTHS: Final[dict[str, Feature]] = {"prompt_tokens": "int64", "completion_tokens": "int64"}

_TURN: Final[dict[str, Feature]] = {
    "attempt": "string",
    "turn": "int64",
    "message": "int64",
    "continues": "int64",
    "status": "string",
    "detail": "string",
    "speedup": "float64",
    "speedup_low": "float64",
    "doubt": "string",
    "reward": "float64",
}


@dataclass(frozen=True, slots=True)
class Config:
    """One table of a dataset."""

    name: str
    features: Mapping[str, Feature]
    about: str
    """One sentence."""


CONFIGS: Final[Mapping[Format, tuple[Config, ...]]] = MappingProxyType(
    {
        Format.SFT: (
            Config(
                "messages",
                {"messages": _MESSAGES, **_PROBLEM, **_LENGTHS, "source": SOURCE},
                "Conversations that end with a right kernel.",
            ),
            Config(
                "prompt_completion",
                {"prompt": _MESSAGES, "completion": _MESSAGES, **_PROBLEM, **_LENGTHS, "source": SOURCE},
                "The same rows, the last answer apart from what it answers.",
            ),
        ),
        Format.PREFERENCE: (
            Config(
                "preference",
                {
                    "prompt": _MESSAGES,
                    "chosen": _MESSAGES,
                    "rejected": _MESSAGES,
                    "reason": "string",
                    **_PROBLEM,
                    "prompt_tokens": "int64",
                    "chosen_tokens": "int64",
                    "rejected_tokens": "int64",
                    "chosen_source": SOURCE,
                    "rejected_source": SOURCE,
                },
                "Pairs: right over wrong (`reason` is `passed`), or surely faster over slower (`faster`).",
            ),
        ),
        Format.UNPAIRED: (
            Config(
                "unpaired",
                {
                    "prompt": _MESSAGES,
                    "completion": _MESSAGES,
                    "label": "bool",
                    **_PROBLEM,
                    **_LENGTHS,
                    "source": SOURCE,
                },
                "Single answers, labelled by whether they were judged right.",
            ),
        ),
        Format.RL: (
            Config(
                "rl",
                {
                    "prompt": _MESSAGES,
                    **_PROBLEM,
                    "backend": "string",
                    "reference": "string",
                    "verifier": "string",
                    "prompt_tokens": "int64",
                },
                "Opening prompts. `verifier` is the JSON of the evaluation's policy to judge answers under.",
            ),
        ),
        Format.TRAJECTORIES: (
            Config(
                "trajectories",
                {
                    "messages": _MESSAGES,
                    **_PROBLEM,
                    "turns": [_TURN],
                    "rewards": ["float64"],
                    "is_linear": "bool",
                    "tokens": "int64",
                    "source": SOURCE,
                },
                "Whole conversations in the order things were said, with the reward of every turn.",
            ),
        ),
        Format.ATTEMPTS: (
            Config(
                "attempts",
                {
                    **_PROBLEM,
                    **SOURCE,
                    "stage": "string",
                    "detail": "string",
                    "outcome": "string",
                    "rule": "string",
                    "finish_reason": "string",
                    "speed_of_light": "float64",
                    "fatal": ["string"],
                    "is_cheat": "bool",
                    "doubt": "string",
                    "reward": "float64",
                    "counted_prompt_tokens": "int64",
                    "counted_completion_tokens": "int64",
                    "counted_reasoning_tokens": "int64",
                    "cost_usd": "float64",
                    "answer_seconds": "float64",
                    "judging_seconds": "float64",
                    "prompt": _MESSAGES,
                    "reply": "string",
                    "code": "string",
                    **_LENGTHS,
                },
                "Every attempt, failures and cheats included, one a row.",
            ),
        ),
    }
)


def as_yaml(features: Mapping[str, Feature]) -> list[object]:
    """The columns as a dataset card declares them."""
    return [{"name": name, **_declare(feature)} for name, feature in features.items()]


def _declare(feature: Feature) -> dict[str, object]:
    match feature:
        case str():
            return {"dtype": feature}
        case list():
            (item,) = feature
            inner = _declare(item)
            return {"list": inner.get("struct", inner.get("dtype", inner))}
        case dict():
            return {"struct": as_yaml(feature)}
