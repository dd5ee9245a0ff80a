"""Remembers completions by what was asked, so that asking again costs nothing."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from pydantic import ValidationError

from kernelwright.agent.records.messages import Completion, CompletionRequest, Provider
from kernelwright.evaluator import Record, sha256_text, write_whole

_LOG = logging.getLogger(__name__)


class Remembered(Record):
    """One file of the cache."""

    completion: Completion
    run: str = ""
    """The run that paid for it."""


class CachingProvider:
    """Answers from a folder what it has been asked before, and lets another provider answer the rest.

    The sample and turn are part of the question, so the n-th sample of a prompt gets the n-th reply. Two
    equal questions at one time are asked once. A reply that the same run paid for but did not live to record
    keeps its price.
    """

    def __init__(
        self, inner: Provider, folder: Path, *, place: str = "", run: str = "", fresh: bool = False
    ) -> None:
        """`place` tells endpoints apart that share a name; with `fresh` only the run's own replies count."""
        self.name = inner.name
        self._inner = inner
        self._folder = folder
        self._place = f"{inner.name} {place}".strip()
        self._run = run
        self._fresh = fresh
        self._asking: dict[str, asyncio.Lock] = {}

    async def complete(self, request: CompletionRequest) -> Completion:
        key = request_key(request, self._place)
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                known = self._read(key)
                if known is None:
                    known = await self._inner.complete(request)
                    self._write(key, known)
                return known
        finally:
            if not lock.locked():
                self._asking.pop(key, None)

    async def close(self) -> None:
        await self._inner.close()

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _read(self, key: str) -> Completion | None:
        try:
            known = Remembered.model_validate_json(self._path(key).read_bytes())
        except (OSError, ValidationError):
            return None
        if self._run and known.run == self._run:
            return known.completion
        free = {"cached": True, "cost_usd": 0.0, "seconds": 0.0, "retries": 0}
        return None if self._fresh else known.completion.model_copy(update=free)

    def _write(self, key: str, completion: Completion) -> None:
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, Remembered(completion=completion, run=self._run).model_dump_json().encode())
        except OSError as error:
            # The reply is paid for and goes on to the log, whatever becomes of the cache.
            _LOG.warning("a reply was not remembered: %s", error)


def request_key(request: CompletionRequest, provider: str) -> str:
    """Content address of a question to a provider: everything that is sent, and which sample it is."""
    return sha256_text(f"{provider}\0{request.model_dump_json()}")
