"""The seam of export formats: an exporter is one object, registered under `kernelwright.exporters`.

Ours are registered in `pyproject.toml` in the same way as those of other packages; README.md shows one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from kernelwright.agent.archive import Archive
from kernelwright.evaluator import ConfigError, Record, load_plugin

GROUP = "exporters"


@dataclass(slots=True)
class Exported:
    """The result of an export: rows written, and the attempts behind them."""

    folder: Path
    rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Rows by table and split; a format without splits leaves the split empty."""
    seen: int = 0
    """Attempts read."""
    used: int = 0
    """Attempts that are in a row."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Attempts in no row, by reason."""
    runs: list[str] = field(default_factory=list)
    """Runs whose attempts were selected."""
    hint: str = ""
    """A way to get rows where there are none."""


@runtime_checkable
class Exporter(Protocol):
    """A format that `kernelwright export` writes."""

    @property
    def name(self) -> str:
        """The word after `kernelwright export`; equal to the entry point's name."""

    @property
    def description(self) -> str:
        """One line for `--help`."""

    @property
    def settings(self) -> type[Record]:
        """The fields it takes; options of the command line have the same names."""

    def write(self, archive: Archive, out: Path, settings: Record) -> Exported:
        """Write a folder that is new or empty, whole or not at all.

        Raises:
            ConfigError: the export cannot be made as asked; the message names the way out.
            ArchiveError: a line is damaged, and the archive does not skip it.
            OSError: the disk is full or not writable; nothing is left behind.
        """


def find_exporter(name: str) -> Exporter:
    """The exporter of a name; raises ConfigError where it is unknown, cannot be imported, or is none."""
    found = load_plugin(GROUP, name)
    if not isinstance(found, Exporter):
        raise ConfigError(f"the entry point {name!r} of kernelwright.{GROUP} is no Exporter: {found!r}")
    return found
