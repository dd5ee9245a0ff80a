"""Makes text of others fit to show: without folders of this machine, names on one line, numbers short.

Escaping for HTML is elsewhere: templates escape, and scripts only ever set text.
"""

from __future__ import annotations

import math
import re
from typing import Final

from kernelwright.agent.leaderboard.policy import NAME_CHARACTERS
from kernelwright.agent.records.strict_json import whole_characters
from kernelwright.evaluator import one_line

_FOLDERS: Final = re.compile(r"(?<![\w./:-])/(?:[\w.@+~-]+/)+(?=[\w.@+~-])")


def without_folders(text: str) -> str:
    """A message of a tool without the absolute folders of this machine; files keep their names."""
    return _FOLDERS.sub("", whole_characters(text))


def name(text: str) -> str:
    """A name on one line, cut where it is far too long."""
    line = one_line(text)
    return line if len(line) <= NAME_CHARACTERS else f"{line[: NAME_CHARACTERS - 1]}…"


def short(value: float | None) -> float | None:
    """A number with the five figures that are worth their bytes."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
