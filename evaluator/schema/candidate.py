"""A candidate: the source of a module that defines `ModelNew`, and its backend."""

from __future__ import annotations

from functools import cached_property

from kernelwright.evaluator.schema.record import Record, sha256_text


class Candidate(Record):
    """Code under test. Never imported, compiled or executed outside the sandbox."""

    source: str
    """The module's whole text."""
    backend: str = "cuda"
    """A name in `BACKENDS`."""

    @cached_property
    def sha(self) -> str:
        """Content address: SHA-256 of backend and source."""
        return sha256_text(f"{self.backend}\0{self.source}")
