"""Errors of an archive."""

from __future__ import annotations


class ArchiveError(Exception):
    """The archive cannot be read or written as it is: damaged, newer than this program, or in use."""


class UnknownRun(ArchiveError):
    """No run of that name; the message lists those there are."""


class MisplacedRun(ArchiveError):
    """A folder holds the run of another name: it was copied or renamed."""
