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


def _all(kind: Feature, *names: str) -> dict[str, Feature]:
    return dict.fromkeys(names, kind)


SOURCE: Final[dict[str, Feature]] = {
    **_all("string", "run", "attempt", "backend", "provider", "model", "answered_by", "strategy"),
    **_all("int64", "sample", "turn"),
    "completed_at": "timestamp",
    **_all("string", "license", "origin", "candidate_sha", "evaluation_sha", "status"),
    **_all("float64", "speedup", "speedup_low", "speedup_high"),
    "against": "string",
    "candidate_ms": "float64",
    **_all("string", "policy", "hardware", "math", "dtype", "shapes", "passes"),
    "baselines": ["string"],
    "trials": "int64",
    **_all("bool", "sanitizers", "is_seeded"),
    **_all("string", "sandbox", "torch"),
    "threads": "int64",
    "evaluator": "string",
    "rules": "int64",
    **_all("string", "evaluator_sha", "track"),
    "sanitized": "bool",
    **_all("string", "unfit", "cuda", "driver"),
}
"""Origin of an attempt, its licence, its measurements, and the policy and software they were made with."""

_PROBLEM: Final = _all("string", "problem", "problem_sha")
_LENGTHS: Final = _all("int64", "prompt_tokens", "completion_tokens")

_TURN: Final[dict[str, Feature]] = {
    "attempt": "string",
    **_all("int64", "turn", "message", "continues"),
    **_all("string", "status", "detail"),
    **_all("float64", "speedup", "speedup_low"),
    **_all("string", "unfit", "policy", "doubt"),
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
        **_all("int64", "prompt_tokens", "chosen_tokens", "rejected_tokens"),
        **_all(SOURCE, "chosen_source", "rejected_source"),
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
        **_all("string", "backend", "reference", "verifier"),
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
        **_all("string", "stage", "detail", "outcome", "rule", "finish_reason"),
        "speed_of_light": "float64",
        "fatal": ["string"],
        "is_cheat": "bool",
        "doubt": "string",
        "reward": "float64",
        **_all("int64", *(f"counted_{kind}_tokens" for kind in ("prompt", "completion", "reasoning"))),
        **_all("float64", "cost_usd", "answer_seconds", "judging_seconds"),
        "prompt": _CHAT,
        **_all("string", "reply", "code"),
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
