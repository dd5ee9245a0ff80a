"""A leaderboard as comma-separated values."""

from __future__ import annotations

import csv
import io
from typing import Final

from kernelwright.agent.leaderboard.board_records import Board, Entry, Estimate, Quartiles
from kernelwright.agent.leaderboard.policy import SAMPLE_COUNTS, SPEEDUP_POINTS
from kernelwright.agent.records.score_policy import ScorePolicy
from kernelwright.evaluator import Status, visible

_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of cells that spreadsheets evaluate (https://owasp.org/www-community/attacks/CSV_Injection)."""
TRACKS: Final = ("own", "mixed", "library", "unknown")

COLUMNS: Final = (
    *("rank", "policy"),
    *("model", "strategy", "backend", *ScorePolicy.model_fields),
    *("problems", "problem_set", "solved", "attempts", "per_problem", "samples"),
    *("ranked_k", "ranked", "ranked_low", "ranked_high"),
    *("geomean", "geomean_low", "geomean_high", "geomean_solved"),
    *(f"fast_{p:g}{end}" for p in SPEEDUP_POINTS for end in ("", "_low", "_high", "_per_attempt")),
    *(f"{kind}_at_{k}" for k in SAMPLE_COUNTS for kind in ("pass", "best")),
    *(f"speed_of_light_{name}" for name in Quartiles.model_fields),
    *(f"track_{track}" for track in TRACKS),
    *("doubted", "unconfirmed"),
    *("cheats", "cheating_rate", "tokens", "cost_usd", "unpriced", "tokens_per_solved"),
    "cost_per_solved_usd",
    *(status.value for status in Status),
)
"""Of the comma-separated values, in their order."""


def to_csv(board: Board) -> str:
    """A heading, then one line an entry; an absent value is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_line(entry) for entry in board.entries)
    return text.getvalue()


def _line(entry: Entry) -> dict[str, object]:
    line: dict[str, object] = {name: getattr(entry, name) for name in Entry.model_fields if name in COLUMNS}
    line |= entry.of.model_dump(mode="json")
    line |= {"policy": entry.of.id, "baselines": " ".join(entry.of.baselines)}
    # Names come from outside, and this may be printed to a terminal.
    line = {key: _cell(value) if type(value) is str else value for key, value in line.items()}
    line |= _around("ranked", entry.ranked) | _around("geomean", entry.geomean)
    for point in entry.fast_p:
        name = f"fast_{point.p:g}"
        line |= _around(name, point.best) | {f"{name}_per_attempt": point.per_attempt}
    for at in entry.at_k:
        line |= {f"pass_at_{at.k}": at.passed, f"best_at_{at.k}": at.speedup}
    if entry.speed_of_light:
        line |= {f"speed_of_light_{name}": value for name, value in entry.speed_of_light}
    line |= {f"track_{track}": entry.tracks.get(track, 0) for track in TRACKS}
    return line | {status.value: entry.statuses.get(status.value, 0) for status in Status}


def _cell(name: str) -> str:
    """A name as text, also where a spreadsheet would read a formula."""
    return visible(f"'{name}" if name.startswith(_FORMULAS) else name)


def _around(name: str, estimate: Estimate) -> dict[str, object]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
