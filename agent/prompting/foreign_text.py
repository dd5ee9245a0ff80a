"""Text of candidates in prompts: without what cannot be seen, bounded, and quoted so that it stays data."""

from __future__ import annotations

import re
from typing import Final

from kernelwright.agent.prompting.policy import EXEMPLAR_CHARACTERS
from kernelwright.agent.records.strict_json import whole_characters
from kernelwright.evaluator import replace_unseen

_TERMINAL: Final = re.compile("\x1b\\[[0-9;?]*[@-~]")
"""Sequences that steer a terminal; without their first letter the rest would stay as noise."""


def stripped(text: str) -> str:
    """A text without what cannot be seen; lone surrogates become question marks."""
    return replace_unseen(_TERMINAL.sub("", whole_characters(text)), lambda _: "")


def in_code(text: str) -> str:
    """A line in backticks, which it cannot end."""
    return f"`{' '.join(stripped(text).replace('`', chr(39)).split())}`"


def fenced(text: str, language: str = "") -> str:
    """A text in a fence longer than any run of backticks in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def bounded(code: str) -> str:
    """The beginning of a module, in whole lines, stripped."""
    code = stripped(code)
    if len(code) <= EXEMPLAR_CHARACTERS:
        return code
    kept = code[:EXEMPLAR_CHARACTERS].rpartition("\n")[0]
    return f"{kept}\n# {len(code) - len(kept)} more characters are left out"
