"""Limits of reading problem files and of parsing Python."""

from __future__ import annotations

from typing import Final

MAX_PROBLEM_BYTES: Final = 4 << 20
"""Largest problem file."""
PARSE_TRIES: Final = 5
"""Attempts to parse a source, as other code in this process, such as import hooks, ignores our lock."""
