"""Atomic folders: complete under their name, or absent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelwright.evaluator import ConfigError


class UnusableExport(ConfigError):
    """An export cannot be made as requested; the message names the way out."""


@dataclass(slots=True)
class Pending:
    """A folder under a temporary name."""

    path: Path
    is_wanted: bool = True
    """False discards the folder at the end."""


@contextmanager
def appearing(out: Path) -> Iterator[Pending]:
    """Yield a temporary folder and rename it to `out`, a new or empty folder, at the end.

    Raises:
        UnusableExport: the folder holds something.
        OSError: not writable; nothing is left behind.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UnusableExport(f"{out} is not empty; choose a new folder for --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    pending = Pending(out.parent / f".{out.name}.{os.getpid()}.{os.urandom(4).hex()}")
    pending.path.mkdir()
    try:
        yield pending
        if pending.is_wanted:
            if out.exists():
                out.rmdir()
            pending.path.rename(out)
    finally:
        shutil.rmtree(pending.path, ignore_errors=True)
