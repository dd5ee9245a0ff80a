"""Finds fenced code blocks in what a model wrote, which is not always Markdown.

Two readings are offered, because each is right where the other fails: the plain one, in which the first
matching fence closes a block, and one in which fences inside a triple-quoted Python string close nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from kernelwright.agent.extraction.policy import STRING_AWARE_BLOCKS
from kernelwright.evaluator import BACKENDS

C_LANGUAGES: Final = frozenset({"c", "c++", "cc", "cpp", "cu", "cuda", "cxx", "h", "hip", "hpp"})
PYTHON_LANGUAGES: Final = frozenset({"py", "python", "python3", "pytorch"})

_FENCE: Final = re.compile(r"^(?P<lead>[^\n`~]*)(?P<mark>`{3,}|~{3,})(?P<info>[^\n`]*)$", re.MULTILINE)
_LIST_LEAD: Final = re.compile(r"[ \t>]*(?:(?:[-*+]|[0-9]{1,3}[.)])[ \t]+)?")
_TOKEN: Final = re.compile(
    r"""\#[^\n]* | "{3} | '{3} | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | \\.""", re.VERBOSE
)
_ENDS: Final = {quote: re.compile(rf"\\.|{quote}", re.DOTALL) for quote in ('"""', "'''")}


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    language: str
    """First word of the info string, lower case; empty when there is none."""
    code: str
    """Its content, less the indentation of the fence."""
    start: int
    """Offset of the opening fence's line."""
    end: int
    """Offset behind the block."""
    closed: bool
    """True where its own closing fence was there."""

    @property
    def may_be_python(self) -> bool:
        """True where the language does not rule it out."""
        return self.language not in C_LANGUAGES


def find_blocks(text: str) -> list[Block]:
    """Blocks of both readings, each once, by their ends; of two that end together the longer comes last.

    Linear in the text's length: the plain reading is one scan, the other at most `STRING_AWARE_BLOCKS` scans.
    """
    fences = list(_FENCE.finditer(text))
    plain: list[tuple[int, Block]] = []
    index = 0
    while index < len(fences):
        if not _opens(fences[index]):
            index += 1
            continue
        closing = _closing(fences, index)
        plain.append((index, _block(text, fences, index, closing)))
        index = closing + (closing < len(fences) and _closes(fences[index], fences[closing]))
    found = {(block.start, block.end): block for _, block in plain}
    for index, block in plain[-STRING_AWARE_BLOCKS:]:
        if block.may_be_python:
            aware = _block(text, fences, index, _closing_outside_strings(text, fences, index))
            found.setdefault((aware.start, aware.end), aware)
    return sorted(found.values(), key=lambda block: (block.end, -block.start))


def _block(text: str, fences: list[re.Match[str]], index: int, closing: int) -> Block:
    opening = fences[index]
    closed = closing < len(fences) and _closes(opening, fences[closing])
    end = fences[closing].start() if closing < len(fences) else len(text)
    words = opening["info"].strip(" \t{}.").split()
    return Block(
        language=words[0].lower() if words else "",
        code=_unindented(text[opening.end() + 1 : end], opening["lead"]),
        start=opening.start(),
        end=fences[closing].end() if closed else end,
        closed=closed,
    )


def _opens(fence: re.Match[str]) -> bool:
    """A fence on its own, in a list or a quotation; behind other text only if it names Python."""
    if _LIST_LEAD.fullmatch(fence["lead"]):
        return True
    return fence["info"].strip().lower() in _python_tags()


@cache
def _python_tags() -> frozenset[str]:
    return PYTHON_LANGUAGES.union(*(backend.fence_tags for backend in BACKENDS.values()))


def _closes(opening: re.Match[str], fence: re.Match[str]) -> bool:
    same = fence["mark"][0] == opening["mark"][0] and len(fence["mark"]) >= len(opening["mark"])
    return same and not fence["info"].strip() and not fence["lead"].strip(" \t>")


def _ends(opening: re.Match[str], fence: re.Match[str]) -> bool:
    return _closes(opening, fence) or (_opens(fence) and bool(fence["info"].strip()))


def _closing(fences: list[re.Match[str]], index: int) -> int:
    later = range(index + 1, len(fences))
    return next((other for other in later if _ends(fences[index], fences[other])), len(fences))


def _closing_outside_strings(text: str, fences: list[re.Match[str]], index: int) -> int:
    strings = _triple_quoted(text, fences[index].end())
    start, end = next(strings, (len(text), len(text)))
    for other in range(index + 1, len(fences)):
        place = fences[other].start()
        while end <= place and start < len(text):
            start, end = next(strings, (len(text), len(text)))
        if not start < place < end and _ends(fences[index], fences[other]):
            return other
    return len(fences)


def _triple_quoted(text: str, place: int) -> Iterator[tuple[int, int]]:
    while token := _TOKEN.search(text, place):
        place = token.end()
        if token.group() in _ENDS:
            ends = _ENDS[token.group()].finditer(text, place)
            place = next((end.end() for end in ends if end.group() == token.group()), len(text) + 1)
            yield token.start(), place


def _unindented(code: str, lead: str) -> str:
    if ">" in lead:
        return re.sub(r"^[ \t]*>[ ]?", "", code, flags=re.MULTILINE)
    if lead and _LIST_LEAD.fullmatch(lead):
        return re.sub(rf"^[ \t]{{1,{len(lead)}}}", "", code, flags=re.MULTILINE)
    return code
