"""Atomic writes: a file is complete or absent."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes, *, pending: Path | None = None, sync: bool = False) -> None:
    """Write a temporary file and rename it.

    `pending` is a folder of the same file system to write in, by default the file's own; with `sync` the
    data is on the disk when this returns.

    Raises:
        OSError: not written; the content at `path` is as it was.
    """
    part = (pending or path.parent) / f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.part"
    try:
        with part.open("xb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
