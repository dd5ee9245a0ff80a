"""Reads runs: their ids, lines, attempts and texts. Read-only; safe while a run is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from kernelwright.agent.archive.log import ArchiveError, Placed, parse, read_lines
from kernelwright.agent.archive.text_store import TextStore
from kernelwright.agent.records.attempt_log import (
    AnyLine,
    Attempt,
    CompletionRecorded,
    EvaluationRecorded,
    ProblemUsed,
    RunStarted,
    Text,
)
from kernelwright.agent.records.messages import Message
from kernelwright.evaluator import Evaluation, Problem, problem_from_source

LOG: Final = "attempts.jsonl"
TEXTS: Final = "texts"

# How this program writes an evaluation's line; inside a JSON string the quotes would be escaped. A line in
# any other layout is parsed.
_EVALUATION: Final = re.compile(rb'"kind":"evaluation","attempt":"([0-9a-f]+)"')


class UnknownRun(ArchiveError):
    """No run has that name; the message lists the known ones."""


class MisplacedRun(ArchiveError):
    """A folder holds a run of another name: it was copied or renamed."""


def refuse_misplaced(line: AnyLine, folder: Path) -> None:
    """Raise if the beginning of a log, or a reply in it, names another run than its folder does.

    Raises:
        MisplacedRun: the ids of its attempts, and the texts they name, belong to another folder.
    """
    match line:
        case RunStarted():
            run = line.run
        case CompletionRecorded():
            run = line.key.run
        case _:
            return
    if run != folder.name:
        there = "; that run is there already" if (folder.parent / run / LOG).exists() else ""
        way_out = f"rename it so, or move it out of {folder.parent} if it is a copy"
        raise MisplacedRun(f"{folder} holds run {run}; {way_out}{there}")


class Archive:
    """All runs below one folder."""

    def __init__(self, folder: Path, on_damage: Callable[[str], None] | None = None) -> None:
        """Point at a folder, which need not exist yet.

        With `on_damage`, damaged lines are reported to it and skipped; without it they raise.
        """
        self.folder = folder
        self._on_damage = on_damage

    def runs(self) -> list[str]:
        """Ids of the runs, oldest first."""
        names = (path.parent.name for path in self.folder.glob(f"*/{LOG}") if path.is_file())
        return sorted(name for name in names if not name.startswith("."))

    def find(self, name: str | None = None) -> str:
        """Return the run with this id or unique prefix of an id; None and `last` mean the newest.

        Raises:
            UnknownRun: none, or more than one.
        """
        runs = self.runs()
        if name is None or name == "last":
            if not runs:
                raise UnknownRun(f"no run in {self.folder} yet")
            return runs[-1]
        fits = [run for run in runs if run.startswith(name)]
        if name in fits or len(fits) == 1:
            return name if name in fits else fits[0]
        if fits:
            raise UnknownRun(f"{name!r} could be {', '.join(fits)}; name one of them")
        known = f"; known: {', '.join(runs[-5:])}" if runs else ""
        raise UnknownRun(f"no run {name!r} in {self.folder}{known}")

    def log_path(self, run: str) -> Path:
        return self.folder / run / LOG

    def lines(self, run: str) -> Iterator[AnyLine]:
        """Iterate over the lines of a run; raises ArchiveError at one that is damaged or newer."""
        path = self.log_path(run)
        return (parse(line, path) for line in read_lines(path))

    def attempts(self, run: str | None = None) -> Iterator[Attempt]:
        """Yield every reply with its latest evaluation, of one run or of all, each attempt once.

        Raises:
            ArchiveError: a line is damaged or newer than this program, or a folder holds another's run.
        """
        for name in self.runs() if run is None else [run]:
            is_told = False
            for attempt in fold(self.log_path(name), self._on_damage):
                try:
                    refuse_misplaced(attempt.completion, self.folder / name)
                except MisplacedRun as error:
                    if not is_told:
                        self._leave_out(error)
                    is_told = True
                else:
                    yield attempt

    def started(self, run: str) -> RunStarted:
        """The first line of a run; raises ArchiveError where its log begins otherwise."""
        first = next(self.lines(run), None)
        if not isinstance(first, RunStarted):
            raise ArchiveError(f"{self.log_path(run)} does not begin with the start of a run")
        return first

    def _leave_out(self, error: ArchiveError, what: str = "") -> None:
        if self._on_damage is None:
            raise error
        self._on_damage(f"left out: {what}{error}")

    def problems_used(self, run: str) -> dict[str, ProblemUsed]:
        """Return a run's recorded problems by id; none if its first line was skipped.

        Raises:
            ArchiveError: its log does not begin as a log does.
        """
        try:
            return {used.id: used for used in self.started(run).problems}
        except ArchiveError as error:
            self._leave_out(error, f"the problems of run {run}: ")
            return {}

    def problems(self, run: str) -> dict[str, Problem]:
        """Return a run's problems as they were when it began, by id."""
        return {
            used.id: problem_from_source(self.text(run, used.source), used.id)
            for used in self.started(run).problems
        }

    def text(self, run: str, text: Text) -> str:
        """Return a text that a line holds or names; raises ArchiveError where its file is damaged."""
        return TextStore(self.folder / run / TEXTS).get(text)

    def messages(self, completion: CompletionRecorded) -> tuple[Message, ...]:
        run = completion.key.run
        return tuple(
            Message(role=message.role, content=self.text(run, message.content))
            for message in completion.prompt
        )

    def reply(self, completion: CompletionRecorded) -> str:
        return self.text(completion.key.run, completion.reply)

    def reasoning(self, completion: CompletionRecorded) -> str:
        """The reasoning sent beside the reply; empty if there was none."""
        return self.text(completion.key.run, completion.reasoning)

    def code(self, attempt: Attempt) -> str | None:
        """The candidate's source; None when the reply held none."""
        code = attempt.completion.code
        return None if code is None else self.text(attempt.key.run, code)

    def evaluation(self, attempt: Attempt) -> Evaluation | None:
        """Return the whole of the latest evaluation; None until evaluated.

        Raises:
            ArchiveError: it is missing, damaged, or of a form this version does not read.
        """
        if attempt.evaluation is None:
            return None
        text = self.text(attempt.key.run, attempt.evaluation.evaluation)
        try:
            return Evaluation.model_validate_json(text)
        except ValidationError as error:
            reason = error.errors(include_url=False, include_context=False)[0]["msg"]
            raise ArchiveError(
                f"the evaluation of attempt {attempt.id} of run {attempt.key.run} cannot be read ({reason}); "
                "restore it from a copy of the run, or evaluate the attempt again"
            ) from None


def fold(path: Path, on_damage: Callable[[str], None] | None = None) -> Iterator[Attempt]:
    """Yield the attempts of one log; with `on_damage`, damaged lines are reported to it and skipped.

    Two passes in bounded memory: the first stores the offset of the latest evaluation of each attempt, the
    second streams the replies, each once. Long texts are not read.

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
            latest[attempt] = replace(line, data=b"")
    seen: set[str] = set()
    with path.open("rb") as file:
        for line in read_lines(path):
            completion = None if _EVALUATION.search(line.data) else read(line)
            if not isinstance(completion, CompletionRecorded) or completion.attempt in seen:
                continue
            seen.add(completion.attempt)
            place = latest.get(completion.attempt)
            evaluation = None
            if place is not None:
                file.seek(place.offset)
                evaluation = read(replace(place, data=file.readline()))
            yield Attempt(completion, evaluation if isinstance(evaluation, EvaluationRecorded) else None)
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
