"""Folds a log into attempts: every reply with the latest evaluation of it, in the order the replies came.

Two passes in bounded memory: the first remembers where the latest evaluation of each attempt begins, the
second streams the replies. The long texts are not touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agent.archive.log import Placed, parse, read_lines
from agent.run import Attempt, CompletionRecorded, EvaluationRecorded

# Inside a JSON string every quote is escaped, so these bytes occur only where they mean what they say.
_EVALUATION = b'"kind":"evaluation"'
_COMPLETION = b'"kind":"completion"'


def fold(path: Path) -> Iterator[Attempt]:
    """The attempts of one log.

    Raises:
        ArchiveError: a line is damaged or newer than this program.
    """
    latest: dict[str, int] = {}
    for line in read_lines(path):
        if _EVALUATION in line.data:
            latest[_evaluation(line, path).attempt] = line.offset
    with path.open("rb") as file:
        for line in read_lines(path):
            if _COMPLETION not in line.data:
                continue
            completion = parse(line, path)
            if not isinstance(completion, CompletionRecorded):
                continue
            offset = latest.get(completion.attempt)
            if offset is None:
                yield Attempt(completion=completion)
                continue
            file.seek(offset)
            judged = Placed(offset=offset, number=line.number, data=file.readline())
            yield Attempt(completion=completion, evaluation=_evaluation(judged, path))


def _evaluation(line: Placed, path: Path) -> EvaluationRecorded:
    record = parse(line, path)
    if not isinstance(record, EvaluationRecorded):
        raise TypeError(f"{path}, line {line.number}: expected an evaluation, found {record.kind}")
    return record
