"""Folds a log into attempts: every reply with the latest evaluation of it, in the order the replies came.

Two passes in bounded memory: the first remembers where the latest evaluation of each attempt begins, the
second streams the replies, each once. The long texts are not touched.
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
# any other layout is parsed to see what it is.
_EVALUATION: Final = re.compile(rb'"kind":"evaluation","attempt":"([0-9a-f]+)"')


def fold(path: Path, on_damage: Callable[[str], None] | None = None) -> Iterator[Attempt]:
    """The attempts of one log; with `on_damage`, which hears of it, damaged lines are passed over.

    Raises:
        ArchiveError: a line is damaged or newer than this program, and nobody asked to hear of it.
    """
    parser = _Parser(path, is_lenient=on_damage is not None)
    latest: dict[str, Placed] = {}
    for line in read_lines(path):
        attempt = _judged(line, parser)
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
            verdict = parser.parse(Placed(offset=place.offset, number=place.number, data=file.readline()))
            yield Attempt(
                completion=completion, evaluation=verdict if isinstance(verdict, EvaluationRecorded) else None
            )
    if on_damage is not None and parser.damaged:
        on_damage(parser.told())


class _Parser:
    """Reads lines; a lenient one keeps count of those that cannot be read."""

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

    def told(self) -> str:
        first = self.damaged[min(self.damaged)]
        more = f"; and {len(self.damaged) - 1} more" if len(self.damaged) > 1 else ""
        return f"left out: {first}{more}"


def _judged(line: Placed, parser: _Parser) -> str | None:
    match = _EVALUATION.search(line.data)
    if match is not None:
        return match[1].decode()
    if b'"evaluation"' in line.data:
        record = parser.parse(line)
        return record.attempt if isinstance(record, EvaluationRecorded) else None
    return None
