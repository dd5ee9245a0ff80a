"""The first value that a page's scripts read: names, sections, attempts and comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from kernelwright.agent.leaderboard.display_text import name, short
from kernelwright.agent.leaderboard.html.page_sections import Section
from kernelwright.agent.leaderboard.rows import grouped
from kernelwright.agent.leaderboard.run_comparison import RunComparison, RunSide
from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.evaluator import visible

ID_DIGITS = 10
"""Of an attempt's id, as far as it is shown."""


ShownAttempt: TypeAlias = tuple[AttemptView, int | None]
"""An attempt that a section shows, and the id of its document; None where that is on another page."""


class Header:
    """Collects what goes into a page's first line."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        """Each name once, by number."""
        self._sections: list[dict[str, object]] = []
        self._attempts: list[list[object]] = []

    def add_section(
        self,
        section: Section,
        shown: Sequence[ShownAttempt],
        failures: Sequence[ShownAttempt],
        *,
        flaws: Sequence[str],
        page: str,
        listed: bool,
    ) -> None:
        """Add a section; its attempts too where they are `listed`, else `page` names the file they are in."""
        of, number = section.of, self._number
        level, slash, _ = of.problem.partition("/")
        statuses = Counter(row.ended for row in section.rows)
        best = section.best
        self._sections.append(
            {
                "n": section.number,
                "problem": number(of.problem),
                "level": number(level if slash else "none"),
                "backend": number(of.backend),
                "hardware": number(of.policy.hardware),
                "terms": number(of.policy.terms),
                "attempts": section.attempts,
                "listed": len(section.rows),
                "groups": section.groups,
                "passed": sum(row.speedup is not None for row in section.rows),
                "cheats": sum(row.is_cheat for row in section.rows),
                "statuses": [[number(status), count] for status, count in sorted(statuses.items())],
                "models": sorted({number(row.model) or 0 for row in section.rows}),
                "best": None if best is None else self._kernel(best, None),
                "flaws": list(flaws),
                "page": page,
                "kernels": [self._kernel(*kernel) for kernel in shown] if listed else [],
                "failures": [self._kernel(*one) for one in failures] if listed else [],
            }
        )
        if listed:
            place = len(self._sections) - 1
            self._attempts += [self._attempt(row, place) for row in section.rows]

    def comparison(self, comparison: RunComparison) -> dict[str, object]:
        """Two runs side by side, in this header's words."""
        number = self._number
        return {
            "before": number(comparison.before),
            "after": number(comparison.after),
            "counts": [[change.value, count] for change, count in comparison.counts.items()],
            "rows": [
                [
                    *map(number, (row.problem, row.backend, row.hardware, row.terms)),
                    *map(number, (row.change.value, row.why)),
                    *map(self._side, (row.before, row.after)),
                ]
                for row in comparison.differences
            ],
        }

    def value(self, facts: Mapping[str, object]) -> dict[str, object]:
        """The whole value, with further facts for the scripts."""
        return {
            **facts,
            "words": [name(word) for word in self._numbers],
            "sections": self._sections,
            "attempts": [list(column) for column in zip(*self._attempts, strict=True)],
        }

    def _number(self, word: str | None) -> int | None:
        return None if word is None else self._numbers.setdefault(word, len(self._numbers))

    def _kernel(self, row: AttemptView, document: int | None) -> dict[str, object]:
        number = self._number
        return {
            "doc": document,
            "attempt": row.attempt[:ID_DIGITS],
            **{key: number(getattr(row, key)) for key in ("model", "strategy", "run", "track")},
            "sample": row.sample,
            "turn": row.turn,
            "status": number(row.ended),
            **{key: short(getattr(row, key)) for key in ("speedup", "low", "high")},
            "light": short(row.speed_of_light),
            "doubted": row.is_doubted,
            "unfit": number(row.unfit or None),
            "confirmed": row.is_confirmed,
            "sanitized": row.sanitized,
        }

    def _attempt(self, row: AttemptView, section: int) -> list[object]:
        number = self._number
        return [
            section,
            *map(number, (row.model, row.strategy, row.run)),
            row.sample,
            row.turn,
            number(row.ended),
            *map(short, (row.speedup, row.low, row.high)),
            row.tokens,
            short(row.cost_usd),
            row.attempt[:ID_DIGITS],
            int(row.is_cheat) + 2 * int(row.is_doubted),
            number(row.track),
        ]

    def _side(self, side: RunSide | None) -> list[object] | None:
        if side is None:
            return None
        measured = [short(side.speedup), short(side.low), short(side.high)]
        return [self._number(side.model), *measured, side.attempts, side.passed]


def run_facts(rows: Iterable[AttemptView]) -> list[dict[str, object]]:
    """Counts of each run, oldest first."""
    return [
        {
            "run": visible(run),
            "models": [name(model) for model in dict.fromkeys(row.model for row in of_run)],
            "backends": [name(backend) for backend in dict.fromkeys(row.backend for row in of_run)],
            "attempts": len(of_run),
            "passed": sum(row.speedup is not None for row in of_run),
        }
        for run, of_run in sorted(grouped(rows, lambda row: row.run).items())
    ]
