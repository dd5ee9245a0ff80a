"""Reads the texts that options take: durations, lists, limits and endpoints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kernelwright.agent.setup.usage_error import UsageError, unknown

_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_ENDPOINT_FIELDS: Final = ("base_url", "model", "key_env")
_LIMITS: Final = ("total_s", "build_s", "load_s", "call_s", "memory_gib")
"""Limits people set; the rest is for `--set evaluation.limits.NAME=VALUE`."""


def parse_seconds(text: str) -> float:
    """Seconds in a duration: `90`, `90s`, `10m`, `2h`; raises UsageError if it is no positive one."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip().lower())
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"{text!r} is not a duration; examples: 90s, 10m, 2h")
    return float(match[1]) * _SECONDS[match[2]]


def split(texts: Sequence[str]) -> tuple[str, ...]:
    """Names that are repeated or separated by commas."""
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


def absolute(text: str) -> str:
    """A path that means the same from every folder."""
    return str(Path(text).resolve())


def passes(backward: bool) -> str:
    """Name the passes that one call computes."""
    return "forward_backward" if backward else "forward"


def parse_limits(texts: Sequence[str]) -> dict[str, str]:
    """The limits in texts such as `total_s=60`; raises UsageError for another form or an unknown name."""
    limits: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise UsageError(f"--limit {text!r} is not NAME=VALUE; an example: --limit total_s=60")
        if name not in _LIMITS:
            raise UsageError(f"--limit: {unknown('limit', name, _LIMITS)}")
        limits[name] = value
    return limits


def parse_fallback(texts: Sequence[str]) -> list[dict[str, str]]:
    """The endpoints that `--fallback` names, as fields of `EndpointChoice`.

    Raises:
        UsageError: not in the form that the option takes.
    """
    return [_parse_endpoint(text) for text in texts]


def _parse_endpoint(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in _ENDPOINT_FIELDS or not value:
            raise UsageError(
                f"--fallback {text!r}: {part!r} is not one of {'=…, '.join(_ENDPOINT_FIELDS)}=…; an example: "
                "--fallback base_url=http://localhost:8000/v1,model=NAME,key_env=OTHER_KEY"
            )
        fields[name] = value
    if "base_url" not in fields:
        raise UsageError(f"--fallback {text!r} names no base_url")
    return fields
