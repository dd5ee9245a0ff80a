"""The sections of a page: each problem under its terms, with the attempts to show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kernelwright.agent.leaderboard.policy import FAILURES_SHOWN, KERNELS_SHOWN
from kernelwright.agent.leaderboard.rows import grouped
from kernelwright.agent.leaderboard.standings import fastest, place
from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.evaluator import Status

_NO_CODE: Final = frozenset({Status.NO_CODE, Status.TRUNCATED})


@dataclass(slots=True)
class Section:
    """One problem with one backend on one hardware under one policy."""

    number: int
    """Its number in links."""
    rows: list[AttemptView]
    """Attempts to list, in the archive's order."""
    attempts: int
    """Attempts there are; more than are listed only where they would fill a page."""
    chosen: list[AttemptView]
    """Best kernel of each model and strategy, best first; without any, the last attempt that held code."""
    failures: list[AttemptView]
    """Latest failed attempts, without the chosen one."""
    groups: int
    """Models and strategies with a correct kernel; there may be more than were chosen."""

    @property
    def of(self) -> AttemptView:
        """Any of its attempts, for their common fields."""
        return self.rows[0]

    @property
    def best(self) -> AttemptView | None:
        """The correct kernel to show first."""
        return self.chosen[0] if self.chosen and self.chosen[0].speedup is not None else None


def sections(rows: Iterable[AttemptView], *, most: int) -> list[Section]:
    """All sections, by problem, backend, hardware and policy; one lists `most` attempts at most."""
    found = grouped(rows, lambda row: (row.problem, *place(row)))
    order = sorted(found, key=lambda of: (*of[:2], -len(found[of]), str(of[2])))
    return [_section(number, found[key], most) for number, key in enumerate(order)]


def paged(parts: Sequence[Section], *, most: int) -> list[list[Section]]:
    """The sections of each page, in order, with `most` attempts at most on each."""
    pages: list[list[Section]] = []
    room = 0
    for section in parts:
        if not pages or len(section.rows) > room:
            pages.append([])
            room = most
        pages[-1].append(section)
        room -= len(section.rows)
    return pages


def _section(number: int, rows: list[AttemptView], most: int) -> Section:
    groups = grouped(rows, lambda row: (row.model, row.strategy)).values()
    best = [found for of_group in groups if (found := fastest(of_group)) is not None]
    best.sort(key=lambda row: (row.is_doubted, bool(row.unfit), -(row.speedup or 0.0)))
    chosen = best[:KERNELS_SHOWN]
    if not chosen:
        held = [row for row in rows if row.status not in _NO_CODE]
        chosen = (held or rows)[-1:]
    listed = rows if len(rows) <= most else _most_telling(rows, chosen, most)
    failures = [row for row in listed if row.speedup is None and row not in chosen]
    return Section(
        number=number,
        rows=listed,
        attempts=len(rows),
        chosen=chosen,
        failures=failures[: -FAILURES_SHOWN - 1 : -1],
        groups=len(best),
    )


def _most_telling(rows: list[AttemptView], chosen: list[AttemptView], most: int) -> list[AttemptView]:
    """As many rows as a page lists: the chosen ones first, then in the archive's order."""
    shown = {row.attempt for row in chosen}
    rest = [row for row in rows if row.attempt not in shown][: max(0, most - len(chosen))]
    kept = shown | {row.attempt for row in rest}
    return [row for row in rows if row.attempt in kept]
