"""Folds a log into attempts: every reply with the latest evaluation of it, in the order the replies came.

Two passes in bounded memory: the first remembers where the latest evaluation of each attempt begins, the
second streams the replies. The long texts are not touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agent.archive.log import Placed, parse, read_lines
from agent.run import Attempt, CompletionRecorded, EvaluationRecorded

# How this program writes an evaluation's line; inside a JSON string the quotes would be escaped. A line in
# any other layout is parsed to see what it is.
_EVALUATION: Final = re.compile(rb'"kind":"evaluation","attempt":"([0-9a-f]+)"')


def fold(path: Path) -> Iterator[Attempt]:
    """The attempts of one log.

    Raises:
        ArchiveError: a line is damaged or newer than this program.
    """
    latest: dict[str, int] = {}
    for line in read_lines(path):
        attempt = _judged(line, path)
        if attempt is not None:
            latest[attempt] = line.offset
    with path.open("rb") as file:
        for line in read_lines(path):
            completion = None if _EVALUATION.search(line.data) else parse(line, path)
            if not isinstance(completion, CompletionRecorded):
                continue
            offset = latest.get(completion.attempt)
            if offset is None:
                yield Attempt(completion=completion)
                continue
            file.seek(offset)
            verdict = parse(Placed(offset=offset, number=line.number, data=file.readline()), path)
            if isinstance(verdict, EvaluationRecorded):
                yield Attempt(completion=completion, evaluation=verdict)


def _judged(line: Placed, path: Path) -> str | None:
    """The attempt whose evaluation a line is."""
    match = _EVALUATION.search(line.data)
    if match is not None:
        return match[1].decode()
    if b'"evaluation"' in line.data:
        record = parse(line, path)
        return record.attempt if isinstance(record, EvaluationRecorded) else None
    return None
