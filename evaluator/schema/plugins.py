"""Finds the plugins registered under our entry-point groups, by this project and by other packages.

Groups: `kernelwright.backends`, `.strategies`, `.providers` and `.exporters`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from kernelwright.evaluator.schema.errors import ConfigError

_OWN = "kernelwright"
_SINGULAR = {
    "backends": "backend",
    "strategies": "strategy",
    "providers": "provider",
    "exporters": "exporter",
}


@cache
def plugins(group: str) -> dict[str, EntryPoint]:
    """Entries of `kernelwright.<group>` by name, unloaded; ours come first, in alphabetical order.

    Raises:
        ConfigError: two distributions register one name, or the installed metadata is out of date.
    """
    found: dict[str, EntryPoint] = {}
    entries = entry_points(group=f"{_OWN}.{group}")
    for entry in sorted(entries, key=lambda one: (_distribution(one) != _OWN, one.name)):
        known = found.setdefault(entry.name, entry)
        if known.value != entry.value:
            raise ConfigError(
                f"{_distribution(known)} and {_distribution(entry)} both register {entry.name!r} "
                f"in {_OWN}.{group}; uninstall one of them"
            )
    if not any(_distribution(entry) == _OWN for entry in found.values()):
        raise ConfigError(
            f"the installed metadata of {_OWN} lists no {group}: it is older than the source; "
            "run `make install` (or `pip install -e .`) again"
        )
    return found


def load_plugin(group: str, name: str) -> object:
    """Load the object an entry names; raises ConfigError where there is none, or importing it failed."""
    known = plugins(group)
    if name not in known:
        raise ConfigError(f"unknown {_SINGULAR[group]} {name!r}; known: {', '.join(known)}")
    try:
        return known[name].load()
    except Exception as error:  # an import of another package may raise anything
        message = f"{_SINGULAR[group]} {name!r} of {_distribution(known[name])} cannot be loaded: {error}"
        raise ConfigError(message) from error


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unknown package"
