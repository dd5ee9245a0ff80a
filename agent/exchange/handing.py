"""Hands runs to another project: a folder that appears whole or not at all, and what is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agent.archive import Archive
from agent.export.folders import appearing


@dataclass(slots=True)
class Written:
    """What was written, and what could not be."""

    candidates: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Attempts by the reason why they are nowhere."""


Writer = Callable[[Archive, Iterable[str], Path], Written]


def hand_over(archive: Archive, runs: Iterable[str], out: Path, write: Writer) -> Written:
    """Write runs to a folder that is new or empty; without a candidate there is none.

    Raises:
        UnusableExport: the folder holds something.
        ArchiveError: a line is damaged, and the archive does not pass it over.
        OSError: disk full, or not writable; nothing is left behind.
    """
    with appearing(out) as pending:
        written = write(archive, runs, pending.path)
        pending.is_wanted = bool(written.candidates)
    return written
