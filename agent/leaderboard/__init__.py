"""What attempts add up to: read-only, pure, from a stream of folded attempts."""

from __future__ import annotations

from agent.leaderboard.display import render
from agent.leaderboard.entries import Board, Entry, ProblemEntry
from agent.leaderboard.standings import board
from agent.leaderboard.tables import to_csv, to_json

__all__ = ["Board", "Entry", "ProblemEntry", "board", "render", "to_csv", "to_json"]
