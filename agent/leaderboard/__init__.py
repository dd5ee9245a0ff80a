"""What attempts add up to: read-only, pure, from a stream of folded attempts."""

from __future__ import annotations

from agent.leaderboard.comparing import Change, Difference, RunComparison, Side, compare_runs
from agent.leaderboard.display import render, render_comparison
from agent.leaderboard.entries import Board, Entry, ProblemEntry
from agent.leaderboard.standings import board
from agent.leaderboard.tables import to_csv, to_json

__all__ = [
    "Board",
    "Change",
    "Difference",
    "Entry",
    "ProblemEntry",
    "RunComparison",
    "Side",
    "board",
    "compare_runs",
    "render",
    "render_comparison",
    "to_csv",
    "to_json",
]
