"""Errors of an archive."""

from __future__ import annotations


class ArchiveError(Exception):
    """The archive cannot be read or written: damaged, newer than this program, or in use."""


class UnknownRun(ArchiveError):
    """No run has that name; the message lists the known ones."""


class MisplacedRun(ArchiveError):
    """A folder holds a run of another name: it was copied or renamed."""
