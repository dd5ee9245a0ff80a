"""A trace of an evaluator's work, for Perfetto (https://ui.perfetto.dev) or chrome://tracing.

    begin(path)                                 from now on, spans are written to a file
    with span("evaluation 3", "wait alone"):    one span on one track

The file is a JSON array of trace events, one a line. Each line is written when its span ends, so a killed
process leaves what it had; both viewers read an array that nobody closed.
"""

from __future__ import annotations

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
_GUARD: Final = threading.Lock()
_tracks: dict[str, int] = {}
_file: TextIO | None = None
"""A trace is of the whole process, as a log is."""


def begin(path: Path) -> None:
    """Write spans to a file from now on; raises OSError where it cannot be written."""
    global _file  # noqa: PLW0603
    _tracks.clear()
    _file = path.open("w", encoding="utf-8")
    _file.write("[\n")


def is_on() -> bool:
    """Return whether spans are written."""
    return _file is not None


def end() -> None:
    """Write no more, and close the file."""
    global _file  # noqa: PLW0603
    with _GUARD:
        if _file is not None:
            _file.close()
        _file = None


def new_track(kind: str) -> str:
    """Name a track that nothing else uses, such as `evaluation 3`."""
    return f"{kind} {next(_COUNTER)}"


@contextmanager
def span(track: str, name: str, **facts: object) -> Iterator[None]:
    """Record the time spent inside."""
    began = time.monotonic()
    try:
        yield
    finally:
        record(track, name, began, **facts)


def record(track: str, name: str, began: float, **facts: object) -> None:
    """Record a span that began at a time of `time.monotonic` and ends now; any JSON value may be a fact.

    Costs nothing where no trace was begun.
    """
    ended = time.monotonic()
    if _file is None:
        return
    with _GUARD:
        if track not in _tracks:
            _tracks[track] = len(_tracks) + 1
            _put(name="thread_name", ph="M", tid=_tracks[track], args={"name": track})
        times = {"ts": round(began * 1e6), "dur": round((ended - began) * 1e6)}
        _put(name=name, ph="X", tid=_tracks[track], args=facts, **times)


def _put(**event: object) -> None:
    if _file is not None:  # or another thread has just ended the trace
        _file.write(json.dumps({"pid": os.getpid(), **event}) + ",\n")
        _file.flush()
