"""Whole files: written so that one is complete or absent, and read where somebody else may have put them."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

from kernelwright.evaluator.host.policy import MAX_FILE_BYTES

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


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


def read_regular(path: Path, *, most: int = MAX_FILE_BYTES) -> bytes:
    """Read a whole file; a pipe, a device or a link in its place is refused, and nothing waits for it.

    Raises:
        OSError: it is missing, no regular file, or larger than `most` bytes.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "is a link, which is not followed", str(path)) from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(most + 1)
    finally:
        os.close(descriptor)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"is larger than {most} bytes", str(path))
    return data


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file of our own."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
