"""Makes text of others safe to read: nothing invisible, nothing that changes the direction of writing.

Escaping for HTML is elsewhere: templates escape, and scripts only ever set text.
"""

from __future__ import annotations

import math
import re
from typing import Final

from kernelwright.agent.leaderboard.policy import NAME_CHARACTERS

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
    "|[\ud800-\udfff]"
)

_FOLDERS: Final = re.compile(r"(?<![\w./:-])/(?:[\w.@+~-]+/)+(?=[\w.@+~-])")


def without_folders(text: str) -> str:
    """A message of a tool without the absolute folders of this machine; files keep their names."""
    return _FOLDERS.sub("", text.encode("utf-8", "replace").decode())


def visible(text: str) -> str:
    """A text with control characters, direction overrides and lone surrogates written out, as `⟨U+202E⟩`."""
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def name(text: str) -> str:
    """A name on one line, cut where it is far too long."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= NAME_CHARACTERS else f"{line[: NAME_CHARACTERS - 1]}…"


def short(value: float | None) -> float | None:
    """A number with the five figures that are worth their bytes."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
