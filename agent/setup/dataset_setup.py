"""Exports a workspace's attempts with a registered exporter."""

from __future__ import annotations

from pathlib import Path

from kernelwright.agent.datasets import Exported, find_exporter
from kernelwright.agent.setup.usage_error import validated
from kernelwright.agent.workspace import Workspace


def export(format: str, out: Path, *, workspace: Path = Path(), **settings: object) -> Exported:
    """Write a workspace's attempts in a registered format, such as `sft`, to a new or empty folder.

    `settings` are fields of the format's settings, such as `filters={"min_speedup": 1.0}`.

    Raises:
        UsageError: a setting the format does not have, or a value that cannot be.
        ConfigError: an unknown format, or an export that cannot be made as asked.
        ArchiveError, OSError: attempts cannot be read, or the folder cannot be written.
    """
    exporter = find_exporter(format)
    return exporter.write(Workspace(workspace).archive(), out, validated(exporter.settings, settings))
