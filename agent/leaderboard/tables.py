"""A leaderboard as JSON and as comma-separated values."""

from __future__ import annotations

import csv
import io

from agent.leaderboard.entries import Board, Entry
from evaluator import Status


def to_json(board: Board) -> str:
    """The whole board, indented, keys in their order of meaning."""
    return board.model_dump_json(indent=2)


def to_csv(board: Board) -> str:
    """One line an entry, with a heading; an absent value is empty."""
    text = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for entry in board.entries:
        line = _line(entry)
        if writer is None:
            writer = csv.DictWriter(text, line, lineterminator="\n")
            writer.writeheader()
        writer.writerow(line)
    return text.getvalue()


def _line(entry: Entry) -> dict[str, object]:
    line: dict[str, object] = {"rank": entry.rank, **entry.of.model_dump(mode="json")}
    for name in ("problems", "problem_set", "solved", "attempts", "samples"):
        line[name] = getattr(entry, name)
    line |= {
        "geomean": entry.geomean.value,
        "geomean_low": entry.geomean.low,
        "geomean_high": entry.geomean.high,
        "geomean_solved": entry.geomean_solved,
    }
    for point in entry.fast_p:
        line[f"fast_{point.p:g}"] = point.best.value
        line[f"fast_{point.p:g}_low"] = point.best.low
        line[f"fast_{point.p:g}_high"] = point.best.high
        line[f"fast_{point.p:g}_per_attempt"] = point.per_attempt
    first = next(iter(entry.at_k), None)
    line |= {"pass_at_1": first.passed if first else None, "best_at_1": first.speedup if first else None}
    for name in ("cheats", "cheating_rate", "tokens", "cost_usd", "unpriced", "tokens_per_solved"):
        line[name] = getattr(entry, name)
    line["cost_per_solved_usd"] = entry.cost_per_solved_usd
    return line | {status.value: entry.statuses.get(status.value, 0) for status in Status}
