"""Facts worth keeping between runs on one machine: baseline ratios, as small JSON files in the cache."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kernelwright.evaluator.ipc.channel import Message
from kernelwright.evaluator.ipc.messages import VERDICT
from kernelwright.evaluator.schema.record import sha256_text

_VERSION = 2
"""Of how what is kept was measured."""


class MeasurementStore(Protocol):
    """What is remembered of a problem between referees: measured ratios of its baselines."""

    def recall(self, key: str) -> Message:
        """What was remembered under a key; empty if nothing."""
        ...

    def remember(self, key: str, facts: Message) -> None:
        """Keep facts under a key."""
        ...


class MeasurementCache:
    """One file a key; a lost or broken file is only forgotten."""

    def __init__(self, folder: Path, *, judge: Callable[[], str] = str) -> None:
        """`judge` names the evaluator and the compiler whose verdicts are kept."""
        self._folder = folder
        self._judge = judge

    def recall(self, key: str) -> Message:
        """What was remembered; empty if nothing usable was."""
        try:
            facts = json.loads(self._path(key).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return facts if isinstance(facts, dict) and facts.get("key") == self._whole(key) else {}

    def remember(self, key: str, facts: Message) -> None:
        """Keep facts, atomically; a full disk forgets."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            fd, name = tempfile.mkstemp(dir=self._folder)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                json.dump(facts | {"key": self._whole(key)}, file)
            Path(name).replace(self._path(key))

    def _path(self, key: str) -> Path:
        return self._folder / f"{sha256_text(f'{_VERSION}:{self._whole(key)}')[:32]}.json"

    def _whole(self, key: str) -> str:
        return f"{key}:{self._judge()}" if VERDICT in key else key
