"""Limits of extraction, which keep it fast on any text."""

from __future__ import annotations

from typing import Final

LONGEST_TEXT: Final = 16 << 20
"""Characters read; of a longer reply only the end."""
PARAGRAPHS_BEHIND: Final = 4
"""Paragraphs of prose behind unfenced code that are looked through."""
UNFENCED_STARTS: Final = 12
"""Places from which unfenced code is tried to be read."""
LONGEST_MODULE: Final = 2 << 20
"""Characters beyond which no text is taken for a module."""
STRING_AWARE_BLOCKS: Final = 16
"""Last blocks that get the second reading, which may run to the end of the text each time."""
SHINGLE_TOKENS: Final = 3
"""Tokens of one shingle when sources are compared."""
