"""Fills the data of one page, the most telling first, until it is full."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.leaderboard.html.attempt_documents import AttemptDocument, DocumentSources, document
from kernelwright.agent.leaderboard.html.page_header import Header, ShownAttempt, run_facts
from kernelwright.agent.leaderboard.html.page_sections import Section
from kernelwright.agent.leaderboard.policy import FULL_BYTES
from kernelwright.agent.leaderboard.run_comparison import RunComparison
from kernelwright.agent.records.attempt_log import Attempt, Text
from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.evaluator import visible

_SPARE: Final = 16
"""Bytes that end a deflated stream, and then some."""


@dataclass(frozen=True, slots=True)
class PageSources:
    """The sources of all pages."""

    archive: Archive
    chosen: Mapping[str, Attempt]
    """Attempts whose texts may be shown, by id."""
    problems: Mapping[tuple[str, str], Text]
    """Sources of problems, by run and problem."""
    comparisons: Sequence[RunComparison]
    """The most wanted first."""
    runs: Sequence[AttemptView]
    page_of: Mapping[int, str]
    """The file that lists each section; empty when there is only one page."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A page's data."""

    data: str = ""
    """In base64."""
    texts: int = 0
    """Texts that are in it."""
    left_out: int = 0
    """Texts without room."""
    unreadable: int = 0
    """Texts and attempts that are missing or damaged in the archive."""
    sections_left_out: int = 0


def fill(
    content: PageSources, shown: Sequence[Section], listed: AbstractSet[int], *, room: int, is_index: bool
) -> Filled:
    """Pack a page of these sections; of those `listed`, attempts and texts too.

    `room` is in bytes. Where even the names do not fit, only the first sections are packed.
    """
    amount = len(shown)
    while True:
        page = _Page(content, shown[:amount], listed, room=room, is_index=is_index)
        if page.begin() or amount == 0:
            break
        amount //= 2
    page.fill()
    return Filled(
        data=page.packer.text(),
        texts=page.texts,
        left_out=len(page.packer.left_out),
        unreadable=len(page.unreadable),
        sections_left_out=len(shown) - amount,
    )


class Packer:
    """The data inside a page, as long as there is room: JSON lines, deflated and in base64.

    The alphabet of base64 holds nothing that could end a script element or begin another, whatever the texts
    are.
    """

    def __init__(self, limit: int) -> None:
        """`limit` is in bytes of base64."""
        self.left_out: set[int] = set()
        """Ids for which there was no room."""
        self._limit = limit * 3 // 4 - _SPARE
        self._stream = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS)
        self._parts: list[bytes] = []
        self._size = 0
        self._taken: set[int] = set()

    @property
    def room(self) -> int:
        """Deflated bytes that still fit."""
        return self._limit - self._size

    def add(self, key: int, value: object) -> bool:
        """Add a value under an id, once; False when there was no room for it."""
        if key in self._taken:
            return True
        line = json.dumps([key, value], allow_nan=False, separators=(",", ":")) + "\n"
        stream = self._stream.copy()
        data = stream.compress(line.encode()) + stream.flush(zlib.Z_SYNC_FLUSH)
        if len(data) > self.room:
            self.left_out.add(key)
            return False
        self._stream = stream
        self._parts.append(data)
        self._size += len(data)
        self._taken.add(key)
        self.left_out.discard(key)
        return True

    def text(self) -> str:
        """Everything taken, in base64; nothing can be added afterwards."""
        return base64.b64encode(b"".join((*self._parts, self._stream.flush()))).decode("ascii")


class _Page:
    """One page while it is packed."""

    def __init__(
        self,
        content: PageSources,
        shown: Sequence[Section],
        listed: AbstractSet[int],
        *,
        room: int,
        is_index: bool,
    ) -> None:
        self.packer = Packer(room)
        self.texts = 0
        self.unreadable: set[str | int] = set()
        self._content = content
        self._shelf = DocumentSources(content.archive)
        self._header = Header()
        self._documents: list[list[tuple[int, AttemptDocument]]] = []
        """Of each section, best first."""
        self._comparisons: list[tuple[int, dict[str, object]]] = []
        for section in shown:
            self._take(section, is_listed=section.number in listed)
        if is_index:
            for comparison in content.comparisons:
                key = self._shelf.put(f"comparison {comparison.before} {comparison.after}", dict)
                self._comparisons.append((key, self._header.comparison(comparison)))

    def begin(self) -> bool:
        """Pack the names, sections and attempts; False when there is no room for them."""
        facts = {
            "runs": run_facts(self._content.runs) if self._comparisons else [],
            "pairs": [[key, value["before"], value["after"]] for key, value in self._comparisons],
        }
        return self.packer.add(0, self._header.value(facts))

    def fill(self) -> None:
        """Pack further values in this order, as far as there is room."""
        for key, value in self._comparisons[:1]:
            self.packer.add(key, value)
        best = [documents[:1] for documents in self._documents]
        rest = [documents[1:] for documents in self._documents]
        for group in (best, rest):
            pairs = [pair for documents in group for pair in documents]
            for key, one in pairs:
                self.packer.add(key, one.value)
            self._put(one.source for _, one in pairs)
            self._put(one.reference for _, one in pairs)
            if group is best:
                for key, value in self._comparisons[1:]:
                    self.packer.add(key, value)
            # Replies before prompts, the last thing said before the first.
            said = zip_longest(*(reversed(one.conversation) for _, one in pairs))
            logs = zip_longest(*(one.logs for _, one in pairs))
            for column in (*said, *logs):
                self._put(column)

    def _take(self, section: Section, *, is_listed: bool) -> None:
        shown: list[ShownAttempt] = []
        documents: list[tuple[int, AttemptDocument]] = []
        flaws = tuple(dict.fromkeys(visible(flaw) for row in section.rows for flaw in row.flaws))
        for row in (*section.chosen, *section.failures):
            attempt = self._content.chosen.get(row.attempt) if is_listed or not documents else None
            found = self._document(attempt) if attempt else None
            if found is None:
                shown.append((row, None))
                continue
            flaws = flaws or found.flaws
            key = self._shelf.put(f"document {row.attempt}", dict)
            documents.append((key, found))
            shown.append((row, key if is_listed else None))
        page = self._content.page_of.get(section.number, "")
        count = len(section.chosen)
        self._header.add_section(
            section, shown[:count], shown[count:], flaws=flaws, page=page, listed=is_listed
        )
        if is_listed:
            self._documents.append(documents)

    def _document(self, attempt: Attempt) -> AttemptDocument | None:
        key, content = attempt.key, self._content
        source = content.problems.get((key.run, key.problem))
        try:
            return document(self._shelf, attempt, content.archive.folder.parent, source)
        except ArchiveError:
            self.unreadable.add(attempt.id)
            return None

    def _put(self, keys: Iterable[int | None]) -> None:
        for key in keys:
            if key is None or key in self.unreadable:
                continue
            if self.packer.room < FULL_BYTES:
                self.packer.left_out.add(key)
                continue
            try:
                self.texts += self.packer.add(key, self._shelf.fetch[key]())
            except ArchiveError:
                self.unreadable.add(key)
