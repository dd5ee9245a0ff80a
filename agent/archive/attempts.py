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
    parser = _Parser(path, is_lenient=on_damage is not None)
    latest: dict[str, Placed] = {}
    for line in read_lines(path):
        attempt = _evaluated(line, parser)
        if attempt is not None:
            latest[attempt] = Placed(offset=line.offset, number=line.number, data=b"")
    seen: set[str] = set()
    with path.open("rb") as file:
        for line in read_lines(path):
            completion = None if _EVALUATION.search(line.data) else parser.parse(line)
            if not isinstance(completion, CompletionRecorded) or completion.attempt in seen:
                continue
            seen.add(completion.attempt)
            place = latest.get(completion.attempt)
            if place is None:
                yield Attempt(completion=completion)
                continue
            file.seek(place.offset)
            evaluation = parser.parse(Placed(offset=place.offset, number=place.number, data=file.readline()))
            yield Attempt(
                completion=completion,
                evaluation=evaluation if isinstance(evaluation, EvaluationRecorded) else None,
            )
    if on_damage is not None and parser.damaged:
        on_damage(parser.summary())


class _Parser:
    """Parses lines; a lenient parser collects errors instead of raising them."""

    def __init__(self, path: Path, *, is_lenient: bool) -> None:
        self.damaged: dict[int, ArchiveError] = {}
        """By line number."""
        self._path = path
        self._is_lenient = is_lenient

    def parse(self, line: Placed) -> AnyLine | None:
        try:
            return parse(line, self._path)
        except ArchiveError as error:
            if not self._is_lenient:
                raise
            self.damaged[line.number] = error
            return None

    def summary(self) -> str:
        first = self.damaged[min(self.damaged)]
        more = f"; and {len(self.damaged) - 1} more" if len(self.damaged) > 1 else ""
        return f"left out: {first}{more}"


def _evaluated(line: Placed, parser: _Parser) -> str | None:
    match = _EVALUATION.search(line.data)
    if match is not None:
        return match[1].decode()
    if b'"evaluation"' in line.data:
        record = parser.parse(line)
        return record.attempt if isinstance(record, EvaluationRecorded) else None
    return None
