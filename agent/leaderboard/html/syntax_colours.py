"""Colours for sources: where keywords, strings, comments and numbers begin and end.

Candidates are hostile text, so the patterns never go back: each is tried once at each place. C++ and CUDA
inside long Python strings are coloured as what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MOST_CHARACTERS: Final = 200_000
"""Longest source that is coloured."""

_NUMBER: Final = (
    r"(?P<number>\b(?:0[xXbB][\da-fA-F_]++|\d[\d_]*+(?:\.[\d_]*+)?+(?:[eE][+-]?\d++)?+)[a-zA-Z]{0,3}+)"
)
_WORD: Final = r"(?P<word>[^\W\d]\w*+)"
_PYTHON: Final = re.compile(
    r"(?P<comment>#[^\n]*+)"
    r'|(?P<long>(?:[rbfuRBFU]{1,2}+)?+(?:"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)'
    r"|'''(?:[^'\\]|\\.|'(?!''))*+(?:'''|\Z)))"
    r'|(?P<string>(?:[rbfuRBFU]{1,2}+(?=["\']))?+(?:"(?:[^"\\\n]|\\.)*+"?+|\'(?:[^\'\\\n]|\\.)*+\'?+))'
    r"|(?P<decorator>@[\w.]++)"
    rf"|{_NUMBER}|{_WORD}",
    re.DOTALL,
)
_CPP: Final = re.compile(
    r"(?P<comment>//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))"
    r'|(?P<string>"(?:[^"\\\n]|\\.)*+"?+|\'(?:[^\'\\\n]|\\.)\')'
    r"|(?P<decorator>\#[ \t]*+\w++)"
    rf"|{_NUMBER}|{_WORD}",
    re.DOTALL,
)
_IS_CPP: Final = re.compile(r"#include|#pragma|__global__|\btorch::|\bextern \"C\"|;\s*\n")

_PYTHON_WORDS: Final = re.compile(
    r"False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|"
    r"from|global|if|import|in|is|lambda|match|nonlocal|not|or|pass|raise|return|try|while|with|yield"
)
_CPP_WORDS: Final = re.compile(
    r"alignas|auto|break|case|catch|class|const|constexpr|continue|default|delete|do|else|enum|explicit|"
    r"extern|false|for|friend|if|inline|namespace|new|nullptr|operator|private|public|return|sizeof|static|"
    r"static_assert|static_cast|reinterpret_cast|struct|switch|template|this|throw|true|try|typedef|typename|"
    r"union|using|virtual|volatile|while|__(?:global|device|host|shared|restrict|constant)__|"
    r"__launch_bounds__|__forceinline__"
)
_TYPES: Final = re.compile(
    r"void|bool|char|short|int|long|float|double|unsigned|signed|size_t|u?int(?:8|16|32|64)_t|(?:__)?half2?|"
    r"__nv_bfloat16|float[24]|dim3|range|len|print|super|self|min|max|abs|sum|zip|enumerate|torch|nn|tl|triton"
)
_LETTERS: Final = {"comment": "c", "string": "s", "long": "s", "decorator": "d", "number": "n"}


def runs(source: str) -> str:
    """The source's stretches in order, such as `k3_1t4`: a letter for the colour, a length in UTF-16 units.

    `c` comment, `s` string, `k` keyword, `t` type or well-known name, `n` number, `d` decorator or directive,
    `_` anything else. Empty for a source that is too long to colour.
    """
    if len(source) > MOST_CHARACTERS:
        return ""
    parts: list[str] = []
    last, length = "", 0
    for letter, text in _stretches(source, _PYTHON, _PYTHON_WORDS):
        units = len(text.encode("utf-16-le", "surrogatepass")) // 2
        if letter == last:
            length += units
            continue
        if length:
            parts.append(f"{last}{length}")
        last, length = letter, units
    return "".join(parts) + (f"{last}{length}" if length else "")


def _stretches(source: str, pattern: re.Pattern[str], words: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    end = 0
    for found in pattern.finditer(source):
        if found.start() > end:
            yield "_", source[end : found.start()]
        kind, text = found.lastgroup or "", found[0]
        if kind == "long" and _IS_CPP.search(text):
            yield from _inside(text)
        elif kind == "word":
            yield "k" if words.fullmatch(text) else "t" if _TYPES.fullmatch(text) else "_", text
        else:
            yield _LETTERS[kind], text
        end = found.end()
    yield "_", source[end:]


def _inside(text: str) -> Iterator[tuple[str, str]]:
    """A long string that holds C++: its quotes, and what is between them."""
    start = min(place for place in (text.find('"""'), text.find("'''")) if place >= 0) + 3
    stop = len(text) - 3 if len(text) >= start + 3 and text[-3:] == text[start - 3 : start] else len(text)
    yield "s", text[:start]
    yield from _stretches(text[start:stop], _CPP, _CPP_WORDS)
    yield "s", text[stop:]
