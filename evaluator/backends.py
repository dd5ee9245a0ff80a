"""The backends table: how a kernel may be written, and what that asks of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from evaluator.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Backend:
    """One way to write a kernel."""

    name: str
    """The word used on the command line and in every record."""
    device: str
    """Kind of device the kernel runs on: `cpu` or `cuda`."""
    language: str
    """What the kernel source is written in, for people."""
    fence: str
    """Language tag expected on the final code block of a reply."""
    requires: tuple[str, ...] = ()
    """Import names of packages a candidate of this backend needs besides torch."""


BACKENDS: Final = MappingProxyType(
    {
        backend.name: backend
        for backend in (
            Backend(name="cuda", device="cuda", language="CUDA C++", fence="python"),
            Backend(name="cpp", device="cpu", language="C++ on the CPU", fence="python"),
        )
    }
)


def find_backend(name: str) -> Backend:
    """Look a backend up by name.

    Raises:
        ConfigError: unknown name; the message lists the known ones.
    """
    try:
        return BACKENDS[name]
    except KeyError:
        raise ConfigError(f"unknown backend {name!r}; known: {', '.join(BACKENDS)}") from None
