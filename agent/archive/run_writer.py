"""Writes one run: begins or resumes it, and appends to its log."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from kernelwright.agent.archive.disk_reserve import DiskReserve
from kernelwright.agent.archive.log import ArchiveError, LogFile, parse, read_lines
from kernelwright.agent.archive.log_index import Index
from kernelwright.agent.archive.run_reader import LOG, TEXTS, Archive, refuse_misplaced
from kernelwright.agent.archive.text_store import TextStore
from kernelwright.agent.extraction.extract import Extraction
from kernelwright.agent.records.attempt_log import (
    AnyLine,
    Attempt,
    AttemptKey,
    CompletionRecorded,
    EvaluationRecorded,
    KernelKept,
    KernelRefused,
    LogRepaired,
    ProblemUsed,
    RunResumed,
    RunStarted,
    StoredMessage,
    Text,
)
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import Completion, CompletionRequest
from kernelwright.agent.records.provenance import git_commit, now, run_stamp, versions
from kernelwright.agent.records.score import Score
from kernelwright.agent.records.strict_json import whole_characters
from kernelwright.evaluator import Evaluation, Problem, Record, sha256_text

SETTINGS: Final = "settings.toml"
"""Copy of a run's settings for people; programs read the log's first line."""

TORN: Final = "torn"
"""Folder of a run that holds half-written lines a killed writer left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedReply:
    """A reply with its request and its extraction."""

    request: CompletionRequest
    completion: Completion
    extraction: Extraction
    parents: tuple[str, ...] = ()
    exemplars: tuple[str, ...] = ()
    license: str | None = None
    origin: str = ""


def begin_run(
    archive: Archive, plan: str, problems: Sequence[Problem], *, settings: str = "", sync: bool = True
) -> RunLog:
    """Begin a new run; its folder appears once the first line is complete.

    Raises:
        OSError: the folder cannot be written.
    """
    run = f"{run_stamp()}-{secrets.token_hex(2)}"
    hidden = archive.folder / f".{run}"
    hidden.mkdir(parents=True)
    texts = TextStore(hidden / TEXTS, sync=sync)
    started = RunStarted(
        at=now(),
        run=run,
        plan=texts.put(plan),
        settings=texts.put(settings),
        problems=tuple(
            ProblemUsed(id=problem.id, sha=problem.sha, source=texts.put(problem.source))
            for problem in problems
        ),
        versions=versions(),
        git_commit=git_commit(Path(__file__).parents[2]),
    )
    if settings:
        (hidden / SETTINGS).write_text(settings, "utf-8")
    log = LogFile(hidden / LOG, sync=sync)
    log.append(_line(started))
    log.close()
    hidden.rename(archive.folder / run)
    _sync_folder(archive.folder)
    return RunLog(archive, run, sync=sync)


def resume_run(
    archive: Archive, name: str | None = None, *, bounds: Budget | None = None, sync: bool = True
) -> RunLog:
    """Resume a run, the newest by default: lock, repair and index its log; `bounds` replace its limits.

    Raises:
        UnknownRun: no such run.
        ArchiveError: in use by another process, damaged, or newer than this program.
    """
    log = RunLog(archive, archive.find(name), sync=sync)
    log.append(RunResumed(at=now(), versions=versions(), bounds=bounds or Budget()))
    return log


class RunLog:
    """The only writer of a run, safe to share between threads. Close it, or use it as a context manager."""

    def __init__(self, archive: Archive, run: str, *, sync: bool = True) -> None:
        self.archive = archive
        self.run = run
        self.folder = archive.folder / run
        self.index = Index()
        self._guard = threading.RLock()
        self._texts = TextStore(self.folder / TEXTS, sync=sync)
        self._log = LogFile(self.folder / LOG, sync=sync)
        try:
            self._reserve = DiskReserve(self.folder / "ballast")
            self._open()
        except BaseException:
            self._log.close()
            raise

    @property
    def is_disk_full(self) -> bool:
        """True once a write needed the reserved space; then begin nothing new."""
        return self._reserve.is_dropped

    def append(self, line: AnyLine) -> None:
        """Append a line; it is on the disk when this returns.

        Raises:
            ArchiveError: a second reply for an attempt, or an evaluation without a reply.
            OSError: disk full or device failure; the log is as it was before.
        """
        with self._guard:
            self._refuse_if_out_of_order(line)
            offset = self._reserve.spend(lambda: self._log.append(_line(line)))
            self.index.observe(line, offset)
        # Outside the lock: the threads of a busy run wait for the disk together.
        self._log.sync()

    def record_completion(self, key: AttemptKey, reply: ExtractedReply) -> Attempt:
        """Record a reply before anything else is done with it.

        Raises:
            ArchiveError: the log already holds a reply for this key.
        """
        request, completion, found = reply.request, reply.completion, reply.extraction
        line = CompletionRecorded(
            at=now(),
            attempt=key.attempt,
            key=key,
            parents=reply.parents,
            exemplars=reply.exemplars,
            request_sha=sha256_text(_json(request)),
            prompt=tuple(
                StoredMessage(role=message.role, content=self._put(message.content))
                for message in request.messages
            ),
            sampling=request.sampling,
            reply=self._put(completion.text),
            reasoning=self._put(completion.reasoning),
            finish_reason=completion.finish_reason,
            usage=completion.usage,
            cost_usd=completion.cost_usd,
            cached=completion.cached,
            provider=completion.provider,
            answered_by=completion.model,
            seconds=completion.seconds,
            retries=completion.retries,
            response_id=completion.response_id,
            completed_at=completion.completed_at,
            outcome=found.outcome,
            rule=found.rule,
            notes=found.notes,
            code=self._put(found.code) if found.code else None,
            license=reply.license,
            origin=reply.origin,
        )
        self.append(line)
        return Attempt(completion=line)

    def record_evaluation(
        self,
        attempt: Attempt,
        evaluation: Evaluation,
        *,
        reused_from: str | None = None,
        confirms: bool = False,
    ) -> Attempt:
        """Record an evaluation; a later one on the same attempt replaces it in every view."""
        text = _json(evaluation)
        line = EvaluationRecorded(
            at=now(),
            attempt=attempt.id,
            evaluation_sha=sha256_text(text),
            score=Score.of(evaluation),
            evaluation=self._put(text),
            reused_from=reused_from,
            confirms=confirms,
        )
        self.append(line)
        return replace(attempt, evaluation=line)

    def find(self, attempt_id: str) -> Attempt | None:
        """Return the recorded attempt; None if it has no reply."""
        seen = self.index.attempts.get(attempt_id)
        if seen is None:
            return None
        completion = self._line_at(seen.completion)
        evaluation = None if seen.evaluation is None else self._line_at(seen.evaluation)
        if not isinstance(completion, CompletionRecorded) or not (
            evaluation is None or isinstance(evaluation, EvaluationRecorded)
        ):
            raise ArchiveError(f"{self._log.path} changed under its writer; is another program editing it?")
        return Attempt(completion=completion, evaluation=evaluation)

    def close(self) -> None:
        """Release the run's lock and the reserved space."""
        self._reserve.remove()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open(self) -> None:
        torn = self._log.repair(self.folder / TORN)
        self._texts.discard_pending()
        for line in read_lines(self._log.path):
            record = parse(line, self._log.path)
            refuse_misplaced(record, self.folder)
            try:
                self.index.observe(record, line.offset)
            except KeyError as missing:
                raise ArchiveError(
                    f"{self._log.path}, line {line.number} is about attempt {missing}, which has no reply"
                ) from None
        for part in torn:
            moved_to = part.relative_to(self.folder).as_posix()
            self.append(LogRepaired(at=now(), size=part.stat().st_size, moved_to=moved_to))

    def _refuse_if_out_of_order(self, line: AnyLine) -> None:
        known = self.index.attempts
        if isinstance(line, CompletionRecorded) and line.attempt in known:
            raise ArchiveError(f"run {self.run} already holds a reply for {line.key}; the recorded one stays")
        if isinstance(line, EvaluationRecorded | KernelKept | KernelRefused) and line.attempt not in known:
            raise ArchiveError(f"run {self.run} holds no reply for attempt {line.attempt}")

    def _put(self, text: str) -> Text:
        return self._reserve.spend(lambda: self._texts.put(text))

    def _line_at(self, offset: int) -> AnyLine:
        return parse(self._log.line_at(offset), self._log.path)


def _line(record: AnyLine) -> bytes:
    return _json(record).encode() + b"\n"


def _json(record: Record) -> str:
    try:
        return record.model_dump_json()
    except ValueError:
        # Lone surrogates, as broken output may hold: JSON cannot carry them, the rest of the record can.
        return whole_characters(json.dumps(record.model_dump(), ensure_ascii=False, separators=(",", ":")))


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
