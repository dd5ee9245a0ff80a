"""State of bulk jobs in a folder: requests, their batches and results. It survives kills.

requests.jsonl   every request, once          appended
batches.json     every batch and its stage    replaced whole
results.jsonl    every answer, once           appended
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from kernelwright.agent.records.messages import Completion, CompletionRequest
from kernelwright.evaluator import Record, write_whole


class BatchStage(StrEnum):
    """Progress of a batch; each stage is written down before it is entered."""

    PLANNED = "planned"
    CREATING = "creating"
    """The file is uploaded; the batch may have been created without our having heard of it."""
    RUNNING = "running"
    COLLECTED = "collected"
    """Its results are written; what had none is open again."""


class BatchEntry(Record):
    """One batch at the endpoint."""

    name: str
    """Ours; in the batch's metadata, to find it again."""
    keys: tuple[str, ...]
    stage: BatchStage = BatchStage.PLANNED
    file_id: str = ""
    batch_id: str = ""
    status: str = ""
    """As the endpoint says it."""
    problem: str = ""
    """Why it failed as a whole."""
    bound: str = "max_tokens"
    """Its requests' name of the bound on a reply's tokens."""
    bound_refused: bool = False
    """True when the endpoint wants that by its other name, `max_completion_tokens`."""


class Queued(Record):
    """One request."""

    key: str
    request: CompletionRequest


class Result(Record):
    """One answer: a completion, or why there will be none."""

    key: str
    completion: Completion | None = None
    error: str = ""


class _Batches(Record):
    batches: tuple[BatchEntry, ...] = ()


class BatchFolder:
    """The only reader and writer of a folder of bulk jobs; one process at a time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        queued = [Queued.model_validate_json(line) for line in self._lines("requests.jsonl", Queued)]
        results = [Result.model_validate_json(line) for line in self._lines("results.jsonl", Result)]
        self.requests = {one.key: one.request for one in queued}
        self.results = {one.key: one for one in results}
        path = folder / "batches.json"
        text = path.read_text("utf-8") if path.exists() else "{}"
        self.batches = {one.name: one for one in _Batches.model_validate_json(text).batches}

    def add_requests(self, requests: Iterable[Queued]) -> None:
        """Write down requests not known yet."""
        new = {one.key: one for one in requests if one.key not in self.requests}
        self._append("requests.jsonl", new.values())
        self.requests |= {key: one.request for key, one in new.items()}

    def add_results(self, results: Iterable[Result]) -> None:
        """Write down the first result of each request."""
        new = {one.key: one for one in results if one.key not in self.results}
        self._append("results.jsonl", new.values())
        self.results |= new

    def put(self, batch: BatchEntry) -> BatchEntry:
        """Write down a batch as it is now."""
        self.batches[batch.name] = batch
        content = _Batches(batches=tuple(self.batches.values())).model_dump_json().encode()
        write_whole(self._folder / "batches.json", content, sync=True)
        return batch

    def open_keys(self) -> list[str]:
        """Requests without a result that are in no batch under way, in order."""
        under_way = {
            key
            for batch in self.batches.values()
            if batch.stage is not BatchStage.COLLECTED
            for key in batch.keys
        }
        return [key for key in self.requests if key not in self.results and key not in under_way]

    def rounds(self) -> Counter[str]:
        """Number of batches each request has been in; batches that failed as a whole do not count."""
        return Counter(key for batch in self.batches.values() if not batch.problem for key in batch.keys)

    def _append(self, name: str, records: Iterable[Record]) -> None:
        text = "".join(f"{record.model_dump_json()}\n" for record in records)
        if not text:
            return
        with (self._folder / name).open("ab") as stream:
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())

    def _lines(self, name: str, kind: type[Record]) -> list[bytes]:
        path = self._folder / name
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if lines:
            try:
                kind.model_validate_json(lines[-1])
            except ValidationError:
                whole = whole[: len(whole) - len(lines.pop()) - 1]
        if whole != content:
            with path.open("r+b") as stream:
                stream.truncate(len(whole))
        return lines
