"""What may be built and what came of it: the contract between pipeline, cache and build sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field, ValidationError

from kernelwright.evaluator.schema.evaluation import Build
from kernelwright.evaluator.schema.record import Record

_MOST_DEPTH: Final = 4
"""Levels of a request, itself included; honest ones have two."""
_MOST_PARTS: Final = 5_000
_MOST_BYTES: Final = 24 << 20
"""Of all texts as JSON, so that a request fits a message with room to spare."""
_MOST_ERRORS: Final = 3
_LONGEST_ERROR: Final = 200


class InvalidRequest(ValueError):
    """What was asked for is no build request; the message is one short line."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it holds characters that cannot be printed")
    return text


_Name = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
_Path = Annotated[str, Field(max_length=400)]
_Paths = Annotated[tuple[_Path, ...], Field(max_length=1000)]


class BuildRequest(Record):
    """A `load_inline` or `load` call of a candidate, as data; everything in it is hostile."""

    name: _Name
    cpp_sources: tuple[str, ...] = ()
    cuda_sources: tuple[str, ...] = ()
    functions: dict[str, str] | None = None
    """Function names to bind, with their docstrings; None when the sources bind themselves."""
    files: dict[_Path, str] = {}
    """For `load`: relative path to text, sources and the headers beside them."""
    sources: _Paths = ()
    """For `load`: which of `files` are compiled, in order."""
    include_paths: _Paths = ()
    """Folders of `files` to search for headers."""
    extra_cflags: tuple[str, ...] = ()
    extra_cuda_cflags: tuple[str, ...] = ()
    extra_ldflags: tuple[str, ...] = ()
    is_python_module: bool = True
    with_pytorch_error_handling: bool = True
    no_implicit_headers: bool = False
    with_cuda: bool = False
    real_headers: bool = False
    """Use torch's own headers at once: asked when a lean library would not load or may have answered wrongly
    by our fault, and before a kernel is kept."""


class BuildOutcome(Record):
    """What a build gave."""

    build: Build
    shared_object: Path | None = None
    """The published `.so` in the cache, present when `build.ok`."""
    module_name: str = ""
    """The name its `PyInit_` symbol carries; the loader must use it."""
    sources: dict[str, str] = {}
    """Texts that were compiled, by file name, so that a reported line can be shown."""
    doubtful: bool = False
    """Whether a wrong answer may be the fault of the headers it was built with: torch's own must decide."""
    waited_s: float = 0.0
    """Seconds it was kept waiting: for a place, another's build, or what all builds need."""


def parse_request(asked: object) -> BuildRequest:
    """The request a contestant sent as JSON; looked over before anything takes it in as a whole.

    Raises:
        InvalidRequest: it is too deep, too large, or not a request.
    """
    _measure(asked)
    try:
        return BuildRequest.model_validate(asked)
    except ValidationError as error:
        raise InvalidRequest(_told(error)) from None


def _measure(asked: object) -> None:
    """Look at every part, level by level.

    Raises:
        InvalidRequest: there are too many, or they are too deep or too large.
    """
    level, parts, size = [asked], 1, 0
    for _ in range(_MOST_DEPTH):
        inner: list[object] = []
        for part in level:
            if isinstance(part, dict | list | tuple):
                parts += len(part) * (2 if isinstance(part, dict) else 1)
                if parts > _MOST_PARTS:
                    raise InvalidRequest(f"it has more than {_MOST_PARTS} parts")
                inner += part
                inner += part.values() if isinstance(part, dict) else ()
            elif isinstance(part, str):
                size += len(json.dumps(part))
                if size > _MOST_BYTES:
                    raise InvalidRequest(f"its texts hold more than {_MOST_BYTES >> 20} MiB")
        level = inner
    if level:
        raise InvalidRequest(f"it is nested deeper than {_MOST_DEPTH} levels")


def _told(error: ValidationError) -> str:
    """The first few errors without what was given, which may be anything."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found[:_MOST_ERRORS]]
    lines = [line if line.isprintable() else ascii(line) for line in lines]
    more = f"; and {len(found) - len(lines)} more" if len(found) > len(lines) else ""
    return "; ".join(line[-_LONGEST_ERROR:] for line in lines) + more
