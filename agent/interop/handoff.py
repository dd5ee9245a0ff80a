"""Hands runs to another project: a folder that appears whole or not at all, and what is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kernelwright.agent.archive import Archive
from kernelwright.agent.records.atomic_folder import appearing
from kernelwright.evaluator import sha256_text

NAME_CHARACTERS: Final = 120
"""Longest name of a file or folder, without its ending."""


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


def bounded(name: str) -> str:
    """A name that a file system takes; one too long ends in its hash."""
    if len(name) <= NAME_CHARACTERS:
        return name
    return f"{name[: NAME_CHARACTERS - 13]}_{sha256_text(name)[:12]}"
