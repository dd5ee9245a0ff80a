"""The error of an impossible request, and its message: the setting, its values, the nearest known name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails


Model = TypeVar("Model", bound="BaseModel")


class UsageError(Exception):
    """The user asked for something that cannot be; the message names the value and the way out."""


KINDS: Final = MappingProxyType(
    {
        "int": "a whole number",
        "float": "a number",
        "decimal": "a number",
        "finite": "a finite number",
        "bool": "true or false",
        "string": "text",
        "tuple": "a list",
        "dict": "a table",
        "model": "a table",
    }
)
"""Words for the values a setting takes, by how pydantic's names of type errors begin."""

BOUNDS: Final = MappingProxyType(
    {
        "greater_than": "above {gt}",
        "greater_than_equal": "at least {ge}",
        "less_than": "below {lt}",
        "less_than_equal": "at most {le}",
    }
)


def validated(
    model: type[Model],
    values: object,
    *,
    place: str = "",
    prefix: str = "",
    names: Mapping[str, str] = MappingProxyType({}),
) -> Model:
    """The record that values make, else a UsageError, with `place` before what `explain` says."""
    from pydantic import ValidationError

    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{place}{explain(error, model, prefix=prefix, names=names)}") from None


def explain(
    error: ValidationError,
    model: type[BaseModel],
    *,
    prefix: str = "",
    names: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Describe the first error in settings in one line.

    `prefix` is the path of the model among the settings; `names` are the options that gave settings, by path.
    """
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    if place and place[0] == getattr(model.model_fields.get("name"), "default", None):
        place = place[1:]  # the tag of a union
    path = ".".join(filter(None, (prefix, *place)))
    if first["type"] == "extra_forbidden":
        siblings = _siblings(model, place)
        return unknown("setting", path, [".".join(filter(None, (prefix, *one))) for one in siblings])
    given_by = next((name for name in names if f"{path}.".startswith(f"{name}.")), "")
    inner = [part for part in path.removeprefix(given_by).split(".") if part and not part.isdecimal()]
    flag = " ".join((names[given_by], *inner)) if given_by else path
    given = "" if first["type"] == "value_error" else f", not {first['input']!r}"
    return f"{flag}: {_complaint(first)}{given}"


def unknown(kind: str, name: str, known: Sequence[str]) -> str:
    """One line that names an unknown thing, the nearest known one, and all known ones."""
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"no {kind} {name!r}; {hint}known: {', '.join(known)}"


def _complaint(first: ErrorDetails) -> str:
    kind, context = first["type"], first.get("ctx", {})
    if kind in ("enum", "literal_error"):
        return f"must be one of {context['expected'].replace(chr(39), '').replace(' or ', ', ')}"
    if kind in BOUNDS:
        return f"must be {BOUNDS[kind].format(**context)}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return f"must match {context['pattern']}"
    word = KINDS.get(kind.partition("_")[0])
    return f"must be {word}" if word else first["msg"]


def _siblings(model: type[BaseModel], place: Sequence[str]) -> list[tuple[str, ...]]:
    """Settings that stand beside an unknown one; keys and indices of containers are passed over."""
    for part in place[:-1]:
        field = model.model_fields.get(part)
        model = (field and _record_in(field.annotation)) or model
    return [(*place[:-1], name) for name in model.model_fields if name != "name"]


def _record_in(annotation: Any) -> type[BaseModel] | None:  # Any: a type as fields are annotated with
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _record_in(inner))), None)
