"""One append-only file of JSON lines: read as a stream, written by one process, repaired if torn.

A line is one `write` on a file opened for appending, so a killed writer leaves it whole or torn at the very
end. Synced lines survive a power cut. A line that a full disk cut short is truncated.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from kernelwright.agent.archive.private_lock import take_lock
from kernelwright.agent.records.attempt_log import SCHEMA_VERSION, AnyLine
from kernelwright.evaluator import write_whole

_LINE: TypeAdapter[AnyLine] = TypeAdapter(AnyLine)


class ArchiveError(Exception):
    """The archive cannot be read or written: damaged, newer than this program, or in use."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A line's bytes and where they begin."""

    offset: int
    number: int
    """Line number, from 1."""
    data: bytes


def read_lines(path: Path) -> Iterator[Placed]:
    """Yield the complete lines; an unfinished last line is ignored."""
    offset = 0
    with path.open("rb") as file:
        for number, data in enumerate(file, 1):
            if not data.endswith(b"\n"):
                return
            yield Placed(offset=offset, number=number, data=data)
            offset += len(data)


def parse(line: Placed, path: Path) -> AnyLine:
    """Read one line; raises ArchiveError where it is damaged, or of a newer version of this program."""
    try:
        record = _LINE.validate_json(line.data)
    except ValidationError as error:
        version = (_fields(line.data) or {}).get("schema_version")
        _refuse_newer(version if isinstance(version, int) else 0, path)
        reason = error.errors(include_url=False, include_context=False)[0]["msg"]
        raise ArchiveError(
            f"{path}, line {line.number} is damaged ({reason}); restore the file from a copy, "
            "or remove that line to go on without it"
        ) from None
    _refuse_newer(record.schema_version, path)
    return record


class LogFile:
    """The only writer of a log; holds its lock until closed. Safe to share between threads."""

    def __init__(self, path: Path, *, sync: bool = True) -> None:
        self.path = path
        self._sync = sync
        self._guard = threading.Lock()
        try:
            # The log itself may be readable, and whoever reads it could hold its lock.
            self._lock = take_lock(path.with_name(f"{path.name}.lock"))
        except BlockingIOError:
            raise ArchiveError(f"{path} is being written by another process; wait for it or end it") from None
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError:
            os.close(self._lock)
            raise
        self._size = os.fstat(self._file).st_size

    def append(self, data: bytes) -> int:
        """Append one line, newline included, and return its offset; call `sync` to make it durable.

        Raises:
            OSError: disk full or device failure; the log is as it was before.
        """
        with self._guard:
            offset = self._size
            try:
                written = os.write(self._file, data)
                if written != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            except OSError as error:
                os.ftruncate(self._file, offset)
                error.filename = error.filename or str(self.path)
                raise
            self._size += len(data)
            return offset

    def sync(self) -> None:
        """Flush everything appended to the disk; concurrent calls share the wait."""
        if self._sync:
            os.fdatasync(self._file)

    def line_at(self, offset: int) -> Placed:
        """Read the line at an offset that `append` or a scan returned."""
        with self.path.open("rb") as file:
            file.seek(offset)
            return Placed(offset=offset, number=0, data=file.readline())

    def repair(self, aside: Path) -> list[Path]:
        """Repair the end: move half-written lines to files in `aside`, terminate a complete one."""
        torn: list[Path] = []
        while self._size:
            start, tail = self._last_line()
            if _fields(tail) is not None:
                if not tail.endswith(b"\n"):
                    self.append(b"\n")
                break
            torn.append(self._move_aside(start, tail, aside))
        return torn

    def close(self) -> None:
        """Release the lock."""
        os.close(self._file)
        os.close(self._lock)

    def _last_line(self) -> tuple[int, bytes]:
        with self.path.open("rb") as file:
            (tail,) = deque(file, maxlen=1)
        return self._size - len(tail), tail

    def _move_aside(self, start: int, tail: bytes, aside: Path) -> Path:
        aside.mkdir(exist_ok=True)
        path = aside / f"byte-{start}-{hashlib.sha256(tail).hexdigest()[:8]}.txt"
        path.with_suffix(".pending").unlink(missing_ok=True)
        write_whole(path, tail, sync=True)
        os.ftruncate(self._file, start)
        os.fsync(self._file)
        self._size = start
        return path


def _fields(data: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse_newer(version: int, path: Path) -> None:
    if version > SCHEMA_VERSION:
        raise ArchiveError(
            f"{path} was written by a newer kernelwright (schema {version}; "
            f"this one reads {SCHEMA_VERSION}): upgrade kernelwright to read it"
        )
