"""Durations as people write them: `90`, `90s`, `10m`, `2h`."""

from __future__ import annotations

import re
from typing import Final

from kernelwright.agent.cli.terminal.failures import Usage

_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_seconds(text: str) -> float:
    """Seconds in a duration.

    Raises:
        Usage: not a positive duration.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip().lower())
    if match is None or float(match[1]) <= 0:
        raise Usage(f"{text!r} is not a duration; examples: 90s, 10m, 2h")
    return float(match[1]) * _SECONDS[match[2]]
