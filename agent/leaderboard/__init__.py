"""Leaderboards: pure functions over a stream of attempts, as records, tables, text and pages."""

from __future__ import annotations

from kernelwright.agent.leaderboard.board_records import Board, Entry
from kernelwright.agent.leaderboard.run_comparison import compare_runs
from kernelwright.agent.leaderboard.standings import board
from kernelwright.agent.leaderboard.tables import to_csv
from kernelwright.agent.leaderboard.terminal_board import render, render_comparison

__all__ = ["Board", "Entry", "board", "compare_runs", "render", "render_comparison", "to_csv"]
