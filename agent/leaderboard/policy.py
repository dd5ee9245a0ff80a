"""Numbers that decide a leaderboard: its statistics, and the room on its pages."""

from __future__ import annotations

from typing import Final

CONFIDENCE: Final = 0.95
"""Share of the bootstrap distribution inside an interval."""
FEWEST_ROWS: Final = 5
"""Fewest values with an interval; one from fewer would look more certain than it is."""
SPEEDUP_POINTS: Final = (0.0, 1.0, 1.5, 2.0)
"""The p of `fast_p`."""
SAMPLE_COUNTS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
"""The k of pass@k and best@k, as far as every problem has that many samples."""
NAME_CHARACTERS: Final = 160
"""Longest name that is shown whole."""

PAGE_BYTES: Final = 2 * 1024 * 1024
"""Size of one page."""
PAGE_ATTEMPTS: Final = 10_000
"""Attempts that one page lists; larger archives get several pages."""
KERNELS: Final = 20_000
"""Attempts whose texts are read; they are in memory until their page is written."""
SPARE_BYTES: Final = 2048
"""Room for the remarks of a page about itself, written once it is filled."""
FULL_BYTES: Final = 2048
"""Room below which no further text is tried."""
RUNS_COMPARED: Final = 6
"""Newest runs that are compared with each other, each pair of them."""
KERNELS_SHOWN: Final = 8
"""Models and strategies whose best kernels a section shows."""
FAILURES_SHOWN: Final = 32
"""Failed attempts of a section whose status, source and log are on the page, newest first."""
ENTRIES_SHOWN: Final = 100
"""Lines of all standings tables of one page together."""
HUES: Final = 8
"""Colours that a chart distinguishes; further lines are grey."""
TEXT_CHARACTERS: Final = 64 * 1024
"""Longest text that is shown whole."""

COLOURED_CHARACTERS: Final = 64 * 1024
"""Longest source with colours."""
COLOURED_LINE: Final = 2000
"""Longest line of a source with colours: a lexer's pattern rarely crosses lines, so this bounds one step."""
COLOURING_S: Final = 0.5
"""Seconds for the colours of one source; the rest of it has none. Hostile sources of 64 KiB (unclosed
brackets, comments and templates on lines of 1,900 characters) reach it."""
