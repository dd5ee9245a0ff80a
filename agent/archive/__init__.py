"""The only reader and writer of runs: an append-only log of small lines, and long texts beside it."""

from __future__ import annotations

from kernelwright.agent.archive.log import ArchiveError
from kernelwright.agent.archive.log_index import cost_of
from kernelwright.agent.archive.run_reader import Archive, UnknownRun
from kernelwright.agent.archive.run_writer import ExtractedReply, RunLog, begin_run, resume_run

__all__ = [
    "Archive",
    "ArchiveError",
    "ExtractedReply",
    "RunLog",
    "UnknownRun",
    "begin_run",
    "cost_of",
    "resume_run",
]
