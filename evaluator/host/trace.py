"""A trace of an evaluator's work, for Perfetto (https://ui.perfetto.dev) or chrome://tracing.

    begin(path)                                 from now on, spans are written to a file
    with span("evaluation 3", "wait alone"):    one span on one track

The file is a JSON array of trace events, one a line. Each line is written when its span ends, so a killed
process leaves what it had; both viewers read an array that nobody closed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

_COUNTER: Final = itertools.count(1)


class _Writer:
    """Writes spans to a file; usable from any thread."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("w", encoding="utf-8")
        self._file.write("[\n")
        self._guard = threading.Lock()
        self._tracks: dict[str, int] = {}

    # Any JSON value may be a fact of a span.
    def write(self, track: str, name: str, began: float, facts: dict[str, object]) -> None:
        ended = time.monotonic()
        with self._guard:
            number = self._tracks.get(track)
            if number is None:
                number = self._tracks[track] = len(self._tracks) + 1
                self._put(name="thread_name", ph="M", tid=number, args={"name": track})
            times = {"ts": round(began * 1e6), "dur": round((ended - began) * 1e6)}
            self._put(name=name, ph="X", tid=number, args=facts, **times)
            self._file.flush()

    def close(self) -> None:
        with self._guard:
            self._file.close()

    def _put(self, **event: object) -> None:
        self._file.write(json.dumps({"pid": os.getpid(), **event}) + ",\n")


_writer: _Writer | None = None


def begin(path: Path) -> None:
    """Write spans to a file from now on; raises OSError where it cannot be written."""
    global _writer  # noqa: PLW0603 - a trace is of the whole process, as a log is
    _writer = _Writer(path)


def is_on() -> bool:
    """Return whether spans are written."""
    return _writer is not None


def end() -> None:
    """Write no more, and close the file."""
    global _writer  # noqa: PLW0603 - as above
    if _writer is not None:
        _writer.close()
    _writer = None


def new_track(kind: str) -> str:
    """Name a track that nothing else uses, such as `evaluation 3`."""
    return f"{kind} {next(_COUNTER)}"


@contextmanager
def span(track: str, name: str, **facts: object) -> Iterator[None]:
    """Record the time spent inside; costs nothing where no trace was begun."""
    if _writer is None:
        yield
        return
    began = time.monotonic()
    try:
        yield
    finally:
        record(track, name, began, **facts)


def record(track: str, name: str, began: float, **facts: object) -> None:
    """Record a span that began at a time of `time.monotonic` and ends now."""
    writer = _writer
    if writer is not None:
        with contextlib.suppress(ValueError):  # another thread has just ended the trace
            writer.write(track, name, began, facts)
