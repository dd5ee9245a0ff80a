"""Long texts in files named by their hash, written once and whole.

A text is complete or absent. The line that names it is written later, so a line never names half a text.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from kernelwright.agent.archive.log import ArchiveError
from kernelwright.agent.records.attempt_log import INLINE_BYTES, Text, TextRef
from kernelwright.agent.records.strict_json import whole_characters
from kernelwright.evaluator import read_regular, write_whole

PENDING = "pending"
"""Folder of half-written texts; only the holder of the run's lock may empty it."""


class TextStore:
    """The texts of one run."""

    def __init__(self, folder: Path, *, sync: bool = True) -> None:
        self.folder = folder
        self._sync = sync

    def put(self, text: str) -> Text:
        """Store a text: short ones inline, long ones (and invalid Unicode) in a file.

        Raises:
            OSError: disk full or not writable; no half-written text has its name.
        """
        data = text.encode("utf-8", "surrogatepass")
        if len(data) <= INLINE_BYTES and whole_characters(text) == text:
            return text
        ref = TextRef(sha=hashlib.sha256(data).hexdigest(), size=len(data))
        path = self.path(ref)
        if not path.exists():
            pending = self.folder / PENDING
            pending.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(exist_ok=True)
            write_whole(path, data, pending=pending, sync=self._sync)
        return ref

    def get(self, text: Text) -> str:
        """Return the text, checked against its hash.

        Raises:
            ArchiveError: the file is missing or not what was written.
        """
        if isinstance(text, str):
            return text
        path = self.path(text)
        try:
            data = read_regular(path)
        except FileNotFoundError:
            raise ArchiveError(f"text {path} is missing; restore it from a copy of the run") from None
        except OSError as error:
            raise ArchiveError(f"text {path} {error.strerror}; restore it from a copy of the run") from None
        if hashlib.sha256(data).hexdigest() != text.sha:
            raise ArchiveError(f"text {path} is damaged; restore it from a copy of the run")
        return data.decode("utf-8", "surrogatepass")

    def path(self, ref: TextRef) -> Path:
        return self.folder / ref.sha[:2] / f"{ref.sha}.txt"

    def discard_pending(self) -> None:
        """Remove half-written texts of a killed writer; requires the run's lock."""
        for leftover in (self.folder / PENDING).glob("*"):
            leftover.unlink()
