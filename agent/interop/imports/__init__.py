"""Imports replies made elsewhere: text files, chat completions in JSON, KernelBench run folders."""

from __future__ import annotations

from kernelwright.agent.interop.imports.imported_reply import ImportedReply, UnreadableImport
from kernelwright.agent.interop.imports.reply_reader import read_replies

__all__ = ["ImportedReply", "UnreadableImport", "read_replies"]
