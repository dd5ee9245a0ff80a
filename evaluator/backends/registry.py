"""Finds backends: entry points of `kernelwright.backends`, or data handed into a sandbox.

Sandboxed processes see no distribution's metadata. The driver therefore writes all backends it knows into
the image they run from (`export_backends`), where this module and the contestant read them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kernelwright.evaluator.backends.backend import Backend
from kernelwright.evaluator.schema.errors import ConfigError, MachineError
from kernelwright.evaluator.schema.plugins import load_plugin, plugins

GROUP: Final = "backends"
EXPORTED: Final = "backends.json"
"""Name of the file in the `evaluator` folder of an image that holds the driver's backends."""


class _Backends(Mapping[str, Backend]):
    """All backends by name, each loaded on first use."""

    def __getitem__(self, name: str) -> Backend:
        if name not in self._names():
            raise KeyError(name)
        return _exported().get(name) or _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    @staticmethod
    def _names() -> tuple[str, ...]:
        return tuple(_exported() or plugins(GROUP))


BACKENDS: Final[Mapping[str, Backend]] = _Backends()


def find_backend(name: str) -> Backend:
    """Look a backend up by name; raises ConfigError where it is unknown or cannot be loaded."""
    try:
        return BACKENDS[name]
    except KeyError:
        raise ConfigError(f"unknown backend {name!r}; known: {', '.join(BACKENDS)}") from None


def guess_backend(source: str) -> str | None:
    """Return the name of the backend whose words a source uses; None for plain PyTorch."""
    ranked = sorted(BACKENDS.values(), key=lambda backend: -backend.precedence)
    fitting = (
        backend
        for backend in ranked
        if backend.recognised_by and re.search(backend.recognised_by, source, re.MULTILINE)
    )
    return next((backend.name for backend in fitting), None)


def check_packages(name: str) -> None:
    """Raise MachineError where a package of a backend is missing, and say how to get it; imports none."""
    for package in find_backend(name).requires:
        if find_spec(package.module) is None:
            raise MachineError(f"backend {name} needs the package {package.name}: pip install {package.name}")


def export_backends(folder: Path) -> None:
    """Write all backends into an image's `evaluator` folder; raises ConfigError if one does not load."""
    rows = [backend.model_dump(mode="json") for backend in BACKENDS.values()]
    (folder / EXPORTED).write_text(json.dumps(rows), "utf-8")


@cache
def _exported() -> Mapping[str, Backend]:
    """Backends the driver wrote beside this copy of the evaluator; none in an installed one."""
    path = Path(__file__).parents[1] / EXPORTED
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    return {backend.name: backend for backend in map(Backend.model_validate, rows)}


@cache
def _load(name: str) -> Backend:
    backend = load_plugin(GROUP, name)
    if not isinstance(backend, Backend) or backend.name != name:
        raise ConfigError(f"the entry point {name!r} of kernelwright.{GROUP} is no Backend of that name")
    for pattern in (
        backend.recognised_by,
        backend.compiler_frames,
        backend.launch_frames,
        backend.error_preamble,
        backend.error_pointer,
        *backend.compiled_names,
    ):
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"backend {name!r} has a broken pattern {pattern!r}: {error}") from error
    return backend
