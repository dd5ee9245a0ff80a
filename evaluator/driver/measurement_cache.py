"""Facts worth keeping between runs on one machine: baseline ratios, as small JSON files in the cache."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from kernelwright.evaluator.host.files import write_whole
from kernelwright.evaluator.ipc.channel import JsonObject
from kernelwright.evaluator.ipc.driver_requests import VERSIONED, Facts, Recall, Remember
from kernelwright.evaluator.schema.record import sha256_text

_VERSION = 2
"""Version of the measurements; another one forgets all facts."""


class MeasurementCache:
    """One file a key; a lost or broken file is only forgotten."""

    def __init__(self, folder: Path, *, versions: Callable[[], str] = str) -> None:
        """`versions` names the evaluator and the compiler, which versioned facts depend on."""
        self._folder = folder
        self._versions = versions

    def recall(self, key: str) -> JsonObject:
        """The facts under a key; empty if none are usable."""
        try:
            facts = json.loads(self._path(key).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return facts if isinstance(facts, dict) and facts.pop("key", None) == self._whole(key) else {}

    def remember(self, key: str, facts: JsonObject) -> None:
        """Keep facts, atomically; a full disk forgets."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(key), json.dumps(facts | {"key": self._whole(key)}).encode())

    def _path(self, key: str) -> Path:
        return self._folder / f"{sha256_text(f'{_VERSION}:{self._whole(key)}')[:32]}.json"

    def _whole(self, key: str) -> str:
        return f"{key}:{self._versions()}" if VERSIONED in key else key


class FactMemory:
    """Serves a referee's requests to recall and remember facts."""

    def __init__(self, store: MeasurementCache, device: str, threads: int, *, problem_key: str = "") -> None:
        """`problem_key` is what facts about the opened problem and policy lie under."""
        self._store = store
        self._device_key = f"device:{device}:{threads}"
        self._problem_key = problem_key

    def recall(self, request: Recall) -> Facts:
        """Look facts up."""
        return Facts(facts=self._store.recall(self._key(request.about)))

    def remember(self, request: Remember) -> None:
        """Keep facts."""
        self._store.remember(self._key(request.about), request.facts)

    def _key(self, about: str) -> str:
        return f"{self._device_key}:{about}" if about else self._problem_key
