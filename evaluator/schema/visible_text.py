"""Makes text of others safe to read: letters that cannot be seen, or that steer a terminal, are written out.

Unicode's categories decide, so that no list of ours has to keep up with it. Only line feeds and tabs stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from unicodedata import category

_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
"""Control and format characters, private use, halves of characters, separators of lines and paragraphs."""

_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
"""Fillers, joiners and variation selectors: of visible categories, or of none yet, and yet without a glyph
(Default_Ignorable_Code_Point of Unicode, and the blank braille pattern)."""

_SUSPECT: Final = re.compile(r"[^\n\t -~]")


def replace_unseen(text: str, write: Callable[[str], str]) -> str:
    """Replace each letter that cannot be seen by what `write` makes of it; `\\r\\n` becomes a line feed."""
    return _SUSPECT.sub(
        lambda found: write(found[0]) if _is_unseen(found[0]) else found[0], text.replace("\r\n", "\n")
    )


def visible(text: str) -> str:
    """A text with letters that cannot be seen written out, as `⟨U+202E⟩`."""
    return replace_unseen(text, lambda letter: f"⟨U+{ord(letter):04X}⟩")


def one_line(text: str) -> str:
    """The same on one line, so that no text can pass for a line of ours."""
    return " ".join(visible(text).split())


@lru_cache(maxsize=4096)
def _is_unseen(letter: str) -> bool:
    return category(letter) in _CATEGORIES or _BLANK.match(letter) is not None
