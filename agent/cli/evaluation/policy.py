"""Numbers that decide what the commands that evaluate accept and show."""

from __future__ import annotations

from typing import Final

MAX_CANDIDATE_BYTES: Final = 4 << 20
"""Largest candidate file; the longest of our corpus has 40 KB."""

EXCERPT_LINES: Final = 15
"""Lines of a compiler's log or a candidate's output that the card shows."""

SHORTEST_TOKEN: Final = 16
"""Characters below which a service's token could be guessed."""

PROBE_S: Final = 120
"""Longest wait for a tool that `doctor` asks for its version; importing torch cold took 21 s."""
