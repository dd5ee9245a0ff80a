"""A folder that appears whole, under its name, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelwright.evaluator import ConfigError


class UnusableExport(ConfigError):
    """An export that cannot be made as asked; the message names the way out."""


@dataclass(slots=True)
class Pending:
    """A folder that nobody sees yet."""

    path: Path
    is_wanted: bool = True
    """False when it is to vanish again."""


@contextmanager
def appearing(out: Path) -> Iterator[Pending]:
    """A folder to fill; it takes the name `out`, which is new or of an empty folder, at the end.

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
