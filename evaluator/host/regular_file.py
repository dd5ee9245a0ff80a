"""Reads a file that somebody else may have put there: a regular one, no link, and of bounded size."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from kernelwright.evaluator.host.policy import MAX_FILE_BYTES

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


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
