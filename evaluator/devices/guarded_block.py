"""Memory between guard pages: an access beyond its end, or before its beginning, is a fault.

A tensor that does not fill whole pages touches unmapped ones with its end or with its beginning; a pattern in
the rest of its pages shows what was written there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from kernelwright.evaluator.devices.policy import GUARD_SLACK

Edge = Literal["beginning", "end", "exact", "inside"]
"""The edge of a tensor that touches unmapped memory: the end as far as alignment allows, or exactly, at
whatever address that is; or none, at an equally aligned address."""
PATTERN = 0xFF
"""Byte of memory that nobody has written to: NaN as floating point, -1 as a whole number."""


class Pages(Protocol):
    """Mapped pages between unmapped ones."""

    size: int
    """Their bytes."""
    alignment: int
    """Bytes that the address of a tensor is a multiple of."""

    def part(self, begin: int, size: int) -> tuple[object, torch.Tensor]:
        """Some of their bytes as a tensor of uint8, and the object that lives as long as it does."""

    def unmap(self) -> None:
        """Give them back."""


@dataclass(slots=True)
class GuardedBlock:
    """Memory for one tensor."""

    pages: Pages
    data: torch.Tensor | None
    """The tensor's bytes, uint8; None once they were let go."""
    before: torch.Tensor
    """Bytes of its pages before it."""
    behind: torch.Tensor
    """Bytes of its pages behind it, fewer than the alignment where its end touches unmapped memory."""
    owner: Callable[[], object]

    @classmethod
    def cut(cls, pages: Pages, size: int, edge: Edge) -> GuardedBlock:
        """Place `size` bytes in pages; everything is filled with the pattern."""
        last = pages.size - size
        aligned = last // pages.alignment * pages.alignment
        begin = {"beginning": 0, "end": aligned, "exact": last, "inside": last - GUARD_SLACK}[edge]
        end = begin + size
        owner, data = pages.part(begin, size)
        before, behind = pages.part(0, begin)[1], pages.part(end, pages.size - end)[1]
        for memory in (data, before, behind):
            memory.fill_(PATTERN)
        return cls(pages, data, before, behind, weakref.ref(owner))

    def written(self) -> str:
        """Name the side on which its pages were written to; empty for none."""
        for side, name in ((self.behind, "beyond the end"), (self.before, "before the beginning")):
            if bool((side != PATTERN).any()):
                return name
        return ""

    def unmap_unused(self) -> None:
        """Unmap the pages, unless a tensor still lies in them; the device must be idle."""
        self.data = None
        if self.owner() is None:
            self.pages.unmap()
