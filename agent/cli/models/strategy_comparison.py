"""The work of `kernelwright experiment`: one run of several strategies, and what to say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelwright.agent.cli.models.run_summary import run_lines
from kernelwright.agent.cli.terminal.console import out, plain
from kernelwright.agent.cli.terminal.failures import Usage
from kernelwright.agent.leaderboard import Entry, board
from kernelwright.agent.setup.preparation import undertake
from kernelwright.agent.setup.session import Session, work_through
from kernelwright.agent.strategies import find_strategy, strategy_names
from kernelwright.agent.workspace import Workspace

DEFAULT_ATTEMPTS: Final = 8
MOST_ATTEMPTS: Final = 64
"""Replies for each problem that a strategy is laid out for, where only tokens or money bound it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What each strategy may spend on each problem, and how it spends it."""

    attempts: int | None
    tokens: int | None
    cost: float | None
    turns: int
    population: int

    def settings(self, strategies: Sequence[str]) -> dict[str, object]:
        """The settings that lay every strategy out for the same budget.

        Raises:
            ConfigError: an unknown strategy.
        """
        limits = {"attempts": self._attempts, "tokens": self.tokens, "cost_usd": self.cost}
        names = dict.fromkeys(strategies or strategy_names())
        return {
            "compared": {name: self._layout(name) for name in names},
            "problem_budget": {name: limit for name, limit in limits.items() if limit is not None},
        }

    @property
    def _attempts(self) -> int | None:
        bounded = self.tokens is not None or self.cost is not None
        return self.attempts if self.attempts is not None or bounded else DEFAULT_ATTEMPTS

    def _layout(self, name: str) -> dict[str, object]:
        kind = find_strategy(name)
        shape = {"turns": self.turns, "population": self.population}
        own = {field: value for field, value in shape.items() if field in kind.model_fields}
        laid_out = kind.model_validate({"name": name, **own}).within(self._attempts or MOST_ATTEMPTS)
        return laid_out.model_dump(mode="json", exclude={"name"}, exclude_unset=True)


def compare(
    session: Session, given: Mapping[str, object], *, config: Path | None, resume: str | None, json: bool
) -> int:
    """Begin or go on with an experiment, and print what its strategies achieved; returns the exit status.

    Raises:
        Usage, EvaluatorError, ProviderError, ArchiveError, OSError: nothing could be begun.
    """
    work = undertake(session.place, given, config=config, resume=resume)
    if not work.plan.others:
        raise Usage("an experiment compares at least two strategies")
    summary = work_through(session, work)
    place = Workspace(session.workspace)
    entries = sorted(
        board(place.archive().attempts(summary.run_id), seed=work.plan.seed).entries,
        key=lambda entry: (entry.of.model, entry.of.backend, -entry.geomean.value, entry.of.strategy),
    )
    if json:
        from kernelwright.agent.records.strict_json import strict_json

        answer = {
            "run": summary.run_id,
            "end": summary.end,
            "reason": summary.reason,
            "budget": work.plan.problem_budget.model_dump(mode="json", exclude_none=True),
            "strategies": [_summary(entry) for entry in entries],
        }
        print(strict_json(answer, indent=2))
        return summary.exit_code
    _print(entries)
    for label, text in run_lines(place, summary):
        out().print(f"{label:<9}{plain(text)}", soft_wrap=True)
    return summary.exit_code


def _summary(entry: Entry) -> dict[str, object]:
    return {
        "strategy": entry.of.strategy,
        "model": entry.of.model,
        "backend": entry.of.backend,
        "problems": entry.problems,
        "solved": entry.solved,
        "geomean": entry.geomean.model_dump(),
        "geomean_solved": entry.geomean_solved,
        "attempts": entry.attempts,
        "tokens": entry.tokens,
        "cost_usd": entry.cost_usd,
        "unpriced": entry.unpriced,
    }


def cost_text(entry: Entry) -> str:
    """What a strategy cost, as far as that is known."""
    if entry.unpriced == entry.attempts:
        return "unknown"
    known = f"${entry.cost_usd:.4f}"
    return f"{known} and {entry.unpriced} unknown" if entry.unpriced else known


def _print(entries: Sequence[Entry]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("strategy", "model", "backend", "solved", "speedup", "95 %", "replies", "tokens", "cost"):
        table.add_column(heading, justify="left" if heading in ("strategy", "model", "backend") else "right")
    for entry in entries:
        around = entry.geomean
        interval = f"{around.low:.2f} to {around.high:.2f}" if around.low and around.high else "too few"
        table.add_row(
            entry.of.strategy,
            plain(entry.of.model),
            entry.of.backend,
            f"{entry.solved} of {entry.problems}",
            f"{around.value:.2f}×",
            interval,
            str(entry.attempts),
            f"{entry.tokens:,}",
            cost_text(entry),
        )
    out().print(table)
    out().print("speedup: geometric mean of each problem's best, failures as 1.0; interval over problems")
    out().print()
