"""Takes in replies made elsewhere: text files, chat completions in JSON, KernelBench run folders."""

from __future__ import annotations

from agent.imports.matching import Match, match_problem
from agent.imports.reading import read_replies
from agent.imports.reply import ImportedReply, UnreadableImport

__all__ = ["ImportedReply", "Match", "UnreadableImport", "match_problem", "read_replies"]
