"""The only reader and writer of runs: an append-only log of small lines, and long texts beside it."""

from __future__ import annotations

from agent.archive.errors import ArchiveError, UnknownRun
from agent.archive.index import cost_of
from agent.archive.reading import Archive
from agent.archive.writing import Answer, RunLog, begin_run, resume_run

__all__ = ["Answer", "Archive", "ArchiveError", "RunLog", "UnknownRun", "begin_run", "cost_of", "resume_run"]
