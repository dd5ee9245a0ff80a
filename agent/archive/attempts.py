"""Folds a log into attempts: every reply with its latest evaluation, in the order of the replies.

Two passes in bounded memory: the first stores the offset of the latest evaluation of each attempt, the second
streams the replies, each once. Long texts are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from kernelwright.agent.archive.archive_errors import ArchiveError
from kernelwright.agent.archive.log import Placed, parse, read_lines
from kernelwright.agent.records.attempt_log import AnyLine, Attempt, CompletionRecorded, EvaluationRecorded

# How this program writes an evaluation's line; inside a JSON string the quotes would be escaped. A line in
# any other layout is parsed.
_EVALUATION: Final = re.compile(rb'"kind":"evaluation","attempt":"([0-9a-f]+)"')


def fold(path: Path, on_damage: Callable[[str], None] | None = None) -> Iterator[Attempt]:
    """Yield the attempts of one log; with `on_damage`, damaged lines are reported to it and skipped.

    Raises:
        ArchiveError: a line is damaged or newer than this program, and `on_damage` is None.
    """
    damaged: dict[int, ArchiveError] = {}
    """By line number: both passes meet it."""

    def read(line: Placed) -> AnyLine | None:
        try:
            return parse(line, path)
        except ArchiveError as error:
            if on_damage is None:
                raise
            damaged[line.number] = error
            return None

    latest: dict[str, Placed] = {}
    for line in read_lines(path):
        attempt = _evaluated(line, read)
        if attempt is not None:
            latest[attempt] = Placed(offset=line.offset, number=line.number, data=b"")
    seen: set[str] = set()
    with path.open("rb") as file:
        for line in read_lines(path):
            completion = None if _EVALUATION.search(line.data) else read(line)
            if not isinstance(completion, CompletionRecorded) or completion.attempt in seen:
                continue
            seen.add(completion.attempt)
            place = latest.get(completion.attempt)
            if place is None:
                yield Attempt(completion=completion)
                continue
            file.seek(place.offset)
            evaluation = read(Placed(offset=place.offset, number=place.number, data=file.readline()))
            yield Attempt(
                completion=completion,
                evaluation=evaluation if isinstance(evaluation, EvaluationRecorded) else None,
            )
    if on_damage is not None and damaged:
        more = f"; and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        on_damage(f"left out: {damaged[min(damaged)]}{more}")


def _evaluated(line: Placed, read: Callable[[Placed], AnyLine | None]) -> str | None:
    match = _EVALUATION.search(line.data)
    if match is not None:
        return match[1].decode()
    if b'"evaluation"' in line.data:
        record = read(line)
        return record.attempt if isinstance(record, EvaluationRecorded) else None
    return None
