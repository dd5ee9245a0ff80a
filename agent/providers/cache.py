"""Remembers completions by what was asked, so that asking again costs nothing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pydantic import ValidationError

from agent.messages import Completion, CompletionRequest, Provider
from evaluator import sha256_text


class CachingProvider:
    """Answers from a folder what it has been asked before, and lets another provider answer the rest.

    The sample and turn are part of the question: independent samples of one prompt stay independent. Two
    equal questions at one time are asked once.
    """

    def __init__(self, inner: Provider, folder: Path) -> None:
        self._inner = inner
        self._folder = folder
        self._asking: dict[str, asyncio.Lock] = {}

    @property
    def name(self) -> str:
        """The inner provider's name."""
        return self._inner.name

    async def complete(self, request: CompletionRequest) -> Completion:
        """Answer from the cache, at no cost, or ask and remember.

        Raises:
            ProviderError: as the inner provider; nothing is remembered then.
            OSError: the reply could not be written.
        """
        key = request_key(request, self._inner.name)
        lock = self._asking.setdefault(key, asyncio.Lock())
        async with lock:
            known = self._read(key)
            if known is not None:
                return known.model_copy(
                    update={"cached": True, "cost_usd": 0.0, "seconds": 0.0, "retries": 0}
                )
            completion = await self._inner.complete(request)
            self._write(key, completion)
        if not lock.locked():
            self._asking.pop(key, None)
        return completion

    async def close(self) -> None:
        """Close the inner provider."""
        await self._inner.close()

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _read(self, key: str) -> Completion | None:
        """A remembered completion; a damaged file is as good as none and is replaced by the next answer."""
        try:
            return Completion.model_validate_json(self._path(key).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def _write(self, key: str, completion: Completion) -> None:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{key}.{os.getpid()}.part")
        part.write_text(completion.model_dump_json(), "utf-8")
        part.replace(path)


def request_key(request: CompletionRequest, provider: str) -> str:
    """Content address of a question to a provider: everything that is sent, and which sample it is."""
    return sha256_text(f"{provider}\0{request.model_dump_json()}")
