"""Columns of every table and their types: one declaration for the card, for Parquet and for the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Feature: TypeAlias = "str | list[Feature] | dict[str, Feature]"
"""A name (`string`, `float64`, `int64`, `bool`, `timestamp`), a list of one type, or a record's fields."""

Row: TypeAlias = dict[str, Any]  # Any: columns hold texts, numbers, lists and records

TIMESTAMP: Final = "timestamp[ms, tz=UTC]"
"""The type of times in a card; without it JSON readers drop the zone."""

_CHAT: Final[Feature] = [{"role": "string", "content": "string"}]

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
    "completed_at": "timestamp",
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
    "policy": "string",
    "hardware": "string",
    "math": "string",
    "dtype": "string",
    "shapes": "string",
    "passes": "string",
    "baselines": ["string"],
    "trials": "int64",
    "sanitizers": "bool",
    "is_seeded": "bool",
    "sandbox": "string",
    "torch": "string",
    "threads": "int64",
    "evaluator": "string",
    "rules": "int64",
    "evaluator_sha": "string",
    "track": "string",
    "sanitized": "bool",
    "unfit": "string",
    "cuda": "string",
    "driver": "string",
}
"""Origin of an attempt, its licence, its measurements, and the policy and software they were made with."""

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
    "unfit": "string",
    "policy": "string",
    "doubt": "string",
    "reward": "float64",
}


@dataclass(frozen=True, slots=True)
class DatasetTable:
    """One table of a dataset: a folder of files and a configuration of its card."""

    name: str
    features: Mapping[str, Feature]
    about: str
    """One sentence for the card."""


MESSAGES: Final = DatasetTable(
    "messages",
    {"messages": _CHAT, **_PROBLEM, **_LENGTHS, "source": SOURCE},
    "Conversations that end with a correct kernel.",
)
PROMPT_COMPLETION: Final = DatasetTable(
    "prompt_completion",
    {"prompt": _CHAT, "completion": _CHAT, **_PROBLEM, **_LENGTHS, "source": SOURCE},
    "The same rows, with the last answer apart from its prompt.",
)
PAIRS: Final = DatasetTable(
    "preference",
    {
        "prompt": _CHAT,
        "chosen": _CHAT,
        "rejected": _CHAT,
        "reason": "string",
        **_PROBLEM,
        "prompt_tokens": "int64",
        "chosen_tokens": "int64",
        "rejected_tokens": "int64",
        "chosen_source": SOURCE,
        "rejected_source": SOURCE,
    },
    "Pairs: correct over wrong (`reason` is `passed`), or surely faster over slower (`faster`).",
)
UNPAIRED: Final = DatasetTable(
    "unpaired",
    {"prompt": _CHAT, "completion": _CHAT, "label": "bool", **_PROBLEM, **_LENGTHS, "source": SOURCE},
    "Single answers; `label` is true for correct ones.",
)
PROMPTS: Final = DatasetTable(
    "rl",
    {
        "prompt": _CHAT,
        **_PROBLEM,
        "backend": "string",
        "reference": "string",
        "verifier": "string",
        "prompt_tokens": "int64",
    },
    "Opening prompts. `verifier` is the JSON of the policy that evaluates answers.",
)
TRAJECTORIES: Final = DatasetTable(
    "trajectories",
    {
        "messages": _CHAT,
        **_PROBLEM,
        "turns": [_TURN],
        "rewards": ["float64"],
        "is_linear": "bool",
        "tokens": "int64",
        "source": SOURCE,
    },
    "Conversations under one policy in the order of their messages, with the reward of every turn.",
)
ATTEMPTS: Final = DatasetTable(
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
        "prompt": _CHAT,
        "reply": "string",
        "code": "string",
        **_LENGTHS,
    },
    "Every attempt, failures and cheats included, one a row.",
)


def as_yaml(features: Mapping[str, Feature]) -> list[object]:
    """Columns as a dataset card declares them."""
    return [{"name": name, **_declare(feature)} for name, feature in features.items()]


def _declare(feature: Feature) -> dict[str, object]:
    match feature:
        case "timestamp":
            return {"dtype": TIMESTAMP}
        case str():
            return {"dtype": feature}
        case list():
            (item,) = feature
            inner = _declare(item)
            return {"list": inner.get("struct", inner.get("dtype", inner))}
        case dict():
            return {"struct": as_yaml(feature)}
