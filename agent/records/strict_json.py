"""JSON that every reader accepts: no NaN, no infinity, no lone surrogates.

Numbers that JSON lacks become the strings `NaN`, `Infinity` and `-Infinity`, which pydantic reads back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from kernelwright.evaluator import Record


def strict_json(value: object, *, indent: int | None = None) -> str:
    """Serialize a record, or a JSON value that may hold records, as ASCII text."""
    return json.dumps(plain(value), allow_nan=False, indent=indent)


def whole_characters(text: str) -> str:
    """Replace halves of characters, which JSON can spell and UTF-8 cannot, by question marks."""
    return text.encode("utf-8", "replace").decode()


def plain(value: object) -> object:
    """Replace every value that strict JSON cannot represent."""
    match value:
        case Record():
            return plain(value.model_dump(mode="json"))
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case str():
            return whole_characters(value)
        case Mapping():
            return {plain(key): plain(held) for key, held in value.items()}
        case list() | tuple():
            return [plain(held) for held in value]
        case _:
            return value
