"""Settings as a TOML file that explains itself: what is set stands in it, what is not as a comment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from textwrap import wrap
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from kernelwright.agent.setup.run_settings import RunSettings, as_value
from kernelwright.agent.strategies import find_strategy
from kernelwright.evaluator import Record, plugins

WIDTH: Final = 108

HEAD: Final = (
    "Settings of `kernelwright run`, `generate` and `experiment`, for --config; what the command line says "
    "wins. A single one can be given as --set 'sampling.top_p = 0.9'."
)


def explained(settings: RunSettings) -> str:
    """The settings as TOML that reads back as the same, every one with what it means."""
    return "\n".join([*_comment(HEAD), *_table(settings, "")]) + "\n"


def _table(record: Record, name: str) -> Iterator[str]:
    below: list[tuple[str, Record]] = []
    plain = record.model_dump(mode="json", exclude_none=True)
    for key, field in type(record).model_fields.items():
        value = getattr(record, key)
        if isinstance(value, Record):
            below.append((key, value))
            continue
        yield ""
        yield from _comment(f"{field.description or ''} ({_kind(field.annotation)})".strip())
        if key == "options":
            yield from map("# {}".format, _options())
        mark = "" if key in record.model_fields_set and value is not None else "# "
        yield f"{mark}{key} = {'' if value is None else as_value(plain[key])}".rstrip()
    for key, value in below:
        place = f"{name}.{key}" if name else key
        yield from ("", *_comment(type(record).model_fields[key].description or ""), f"[{place}]")
        yield from _table(value, place)


def _options() -> Iterator[str]:
    """The fields of every strategy, with their defaults."""
    for word in plugins("strategies"):
        declared = find_strategy(word).model_fields
        fields = {key: field.default for key, field in declared.items() if key != "name"}
        said = (key if default is None else f"{key} = {as_value(default)}" for key, default in fields.items())
        yield f"  {word}: {', '.join(said)}"


def _kind(annotation: Any) -> str:  # Any: a type as fields are annotated with
    inner, origin = get_args(annotation), get_origin(annotation)
    if origin in (Union, UnionType):
        return ", or ".join(_kind(one) for one in inner)
    if origin is Literal:
        return " | ".join(json.dumps(one) for one in inner)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " | ".join(json.dumps(member.value) for member in annotation)
    if annotation is NoneType:
        return "not set"
    words = {
        "str": "text",
        "int": "whole number",
        "float": "number",
        "Decimal": "number",
        "bool": "true | false",
    }
    words |= {"tuple": "list", "dict": "table"}
    kind: str = (origin or annotation).__name__
    return words.get(kind, kind)


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(" ".join(text.split()), WIDTH)]
