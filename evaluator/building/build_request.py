"""The request for a build and its outcome: the contract between driver, cache and build sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError

from kernelwright.evaluator.building import policy
from kernelwright.evaluator.schema.evaluation import Build
from kernelwright.evaluator.schema.record import Record


class InvalidRequest(ValueError):
    """A build request is refused without asking a compiler; the message is one short line."""


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
    full_headers: bool = False
    """Build with torch's full headers at once: set when a lean library does not load or is suspect, and
    before a kernel is saved."""


class BuildOutcome(Record):
    build: Build
    shared_object: Path | None = None
    """The published `.so` in the cache, present when `build.ok`."""
    sources: dict[str, str] = {}
    """Compiled texts by file name, to show lines that a report names."""
    suspect: bool = False
    """True where a failure of this library may be the lean headers' fault: full headers must decide."""
    waited_s: float = 0.0
    """Seconds it waited for a free slot, an equal build in progress, or the lean headers."""


def parse_request(asked: object) -> BuildRequest:
    """Validate the request a contestant sent as JSON, its size first; raises InvalidRequest if it is none."""
    _check_size(asked)
    try:
        return BuildRequest.model_validate(asked)
    except ValidationError as error:
        raise InvalidRequest(_describe(error)) from None


def _check_size(asked: object) -> None:
    level, parts, size = [asked], 1, 0
    for _ in range(policy.MAX_REQUEST_DEPTH):
        inner: list[object] = []
        for part in level:
            if isinstance(part, dict | list | tuple):
                parts += len(part) * (2 if isinstance(part, dict) else 1)
                if parts > policy.MAX_REQUEST_PARTS:
                    raise InvalidRequest(f"it has more than {policy.MAX_REQUEST_PARTS} parts")
                inner += part
                inner += part.values() if isinstance(part, dict) else ()
            elif isinstance(part, str):
                size += len(json.dumps(part))
                if size > policy.MAX_REQUEST_BYTES:
                    raise InvalidRequest(f"its texts hold more than {policy.MAX_REQUEST_BYTES >> 20} MiB")
        level = inner
    if level:
        raise InvalidRequest(f"it is nested deeper than {policy.MAX_REQUEST_DEPTH} levels")


def _describe(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found[: policy.MAX_REQUEST_ERRORS]]
    lines = [line if line.isprintable() else ascii(line) for line in lines]
    more = f"; and {len(found) - len(lines)} more" if len(found) > len(lines) else ""
    return "; ".join(line[-policy.MAX_ERROR_CHARACTERS :] for line in lines) + more
