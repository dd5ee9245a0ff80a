"""Whose fault a failed lean build may be: the candidate's own code, or the headers in torch's place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_ERROR: Final = re.compile(
    r"^(?P<file>[^\s:()][^:()\n]*)(?:\(\d+\)|:\d+(?::\d+)?): (?:fatal |catastrophic )?error\b.*$",
    re.MULTILINE,
)
"""The first line of an error of g++, clang or nvcc."""
_MISSING_LIBRARY: Final = re.compile(r"cannot find -l")
_ASSEMBLER: Final = re.compile(r"^(?:\{standard input\}|[^\s:]+\.s):\d+: Error: ", re.MULTILINE)
"""Of code in assembly, which headers bring none of."""
_INCLUDED_FROM: Final = re.compile(r"^(?:In file included from|[ \t]+from) \S+", re.MULTILINE)
_OURS: Final = re.compile(
    r"\b(?:torch|at|c10|caffe2|pybind11|py)\b\s*(?:::|[`'\".]|/)|kernelwright|\bKW_\w|pybind|\bTensor\b|\bScalar\b"
    r"|\b(?:TORCH|AT|C10|THP)_\w+|\b(?:ATen|THC)\b"
    r"|(?:not a member of|has no member|no member named).{0,300}\bstd\b|\bstd\b.{0,300}has no member"
    r"|namespace \"std\""
    r"|forget to '#include|in namespace 'std'|incomplete type.{0,300}\bstd::"
    r"|\b(?:cublas|cusparse|cusolver|curand|cudnn|CUBLAS|CUSPARSE|cuda[A-Z])\w*"
    r"|\bPy[A-Z]\w+|undefined reference"
)
"""Names a lean build may lack though torch's real headers bring them."""


def first_error(log: str) -> str:
    """The line of a build's log that says what is wrong."""
    found = _ERROR.search(log)
    return (
        found.group() if found else next((line for line in log.splitlines() if line.strip()), "no word why")
    )


def blames_headers(log: str, header_dirs: Iterable[Path]) -> bool:
    """Whether torch's real headers might accept what failed: judged by the first error alone.

    An error in the candidate's own words is the candidate's: a second try would cost each typo half a minute.
    """
    errors = list(_ERROR.finditer(log))
    if not errors:
        return not (_MISSING_LIBRARY.search(log) or _ASSEMBLER.search(log))
    first = errors[0]
    if any(first["file"].startswith(str(folder)) for folder in header_dirs):
        return True
    end = errors[1].start() if len(errors) > 1 else len(log)
    return bool(_OURS.search(_INCLUDED_FROM.sub("", log[first.start() : end])))
