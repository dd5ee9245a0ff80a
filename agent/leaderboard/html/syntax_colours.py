"""Colours for sources, by Pygments: where keywords, strings, comments and numbers begin and end.

Candidates are hostile text, on which a lexer's patterns may backtrack for long: sources beyond a size or
with a line beyond a length have no colours, nor has the rest of a source after a deadline. CUDA and C++ in
long Python strings are coloured as such.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any, Final

from kernelwright.agent.leaderboard.policy import COLOURED_CHARACTERS, COLOURED_LINE, COLOURING_S

_IS_CPP: Final = re.compile(r"#include|#pragma|__global__|\btorch::|\bextern \"C\"|;\s*\n")
_LETTERS: Final = (
    ("Comment.Preproc", "d"),
    ("Name.Decorator", "d"),
    ("Comment", "c"),
    ("Literal.String", "s"),
    ("Literal.Number", "n"),
    ("Keyword.Type", "t"),
    ("Name.Builtin", "t"),
    ("Name.Namespace", "t"),
    ("Keyword", "k"),
    ("Operator.Word", "k"),
)


def runs(source: str) -> str:
    """The source's stretches in order, such as `k3_1t4`: a letter for the colour, a length in UTF-16 units.

    `c` comment, `s` string, `k` keyword, `t` type or well-known name, `n` number, `d` decorator or directive,
    `_` anything else. Empty for a source that is too long to colour.
    """
    if len(source) > COLOURED_CHARACTERS or max(map(len, source.split("\n"))) > COLOURED_LINE:
        return ""
    parts: list[str] = []
    stretches = _stretches(source, "python", time.monotonic() + COLOURING_S)
    for letter, group in groupby(stretches, key=itemgetter(0)):
        if length := sum(len(text.encode("utf-16-le", "surrogatepass")) // 2 for _, text in group):
            parts.append(f"{letter}{length}")
    return "".join(parts)


def _stretches(source: str, language: str, deadline: float) -> Iterator[tuple[str, str]]:
    end = 0
    tokens = _lexer(language).get_tokens_unprocessed(source)
    in_time = takewhile(lambda token: time.monotonic() < deadline, tokens)
    for letter, group in groupby(in_time, key=lambda token: _letter(token[1])):
        text = "".join(token[2] for token in group)
        end += len(text)
        if language == "python" and letter == "s" and "\n" in text and _IS_CPP.search(text):
            yield from _stretches(text, "cuda", deadline)
        else:
            yield letter, text
    yield "_", source[end:]


@cache
def _lexer(language: str) -> Any:  # Any: Pygments has no types
    return import_module("pygments.lexers").get_lexer_by_name(language)


@cache
def _letter(kind: object) -> str:
    name = str(kind).removeprefix("Token.")
    return next((letter for group, letter in _LETTERS if name.startswith(group)), "_")
