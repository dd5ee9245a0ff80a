"""Decides whether the lean headers may be at fault for a failure; no other module does.

A *suspect* build is repeated with torch's full headers, which decide. That costs half a minute, so an error
in the candidate's own words and a library that computes nothing through the lean headers are not suspect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from kernelwright.evaluator.analysis.elf_symbols import defined_functions
from kernelwright.evaluator.schema.evaluation import Status

SUSPECT_STATUSES: Final = frozenset(
    (Status.WRONG_VALUES, Status.WRONG_SHAPE, Status.WRONG_DTYPE, Status.RUNTIME_ERROR)
)
"""Statuses that a fault of the lean headers in a suspect library would lead to."""

_ERROR: Final = re.compile(
    r"^(?P<file>[^\s:()][^:()\n]*)(?:\(\d+\)|:\d+(?::\d+)?): (?:fatal |catastrophic )?error\b.*$",
    re.MULTILINE,
)
"""The first line of an error of g++, clang or nvcc."""
_MISSING_LIBRARY: Final = re.compile(r"cannot find -l")
_MISSING_HEADER: Final = re.compile(
    r"error: ([\w./+-]+): No such file|cannot open source file \"([^\"]+)\"|'([^']+)' file not found"
)
_ASSEMBLER: Final = re.compile(r"^(?:\{standard input\}|[^\s:]+\.s):\d+: Error: ", re.MULTILINE)
"""An error in assembly, which no header contains."""
_INCLUDED_FROM: Final = re.compile(r"^(?:In file included from|[ \t]+from) \S+", re.MULTILINE)
_HEADER_NAMES: Final = re.compile(
    r"\b(?:torch|at|c10|caffe2|pybind11|py)\b\s*(?:::|[`'\".]|/)|kernelwright|\bKW_\w|pybind|\bTensor\b|\bScalar\b"
    r"|\b(?:TORCH|AT|C10|THP)_\w+|\b(?:ATen|THC|scalar_t)\b"
    r"|(?:not a member of|has no member|no member named).{0,300}\bstd\b|\bstd\b.{0,300}has no member"
    r"|namespace \"std\""
    r"|forget to '#include|in namespace 'std'|incomplete type.{0,300}\bstd::"
    r"|\b(?:cublas|cusparse|cusolver|curand|cudnn|CUBLAS|CUSPARSE|cuda[A-Z])\w*"
    r"|\bPy[A-Z]\w+|undefined reference"
)
"""Names a lean build may lack although torch's full headers declare them."""
_OWN_WORDS: Final = re.compile(
    r"was not declared in this scope|identifier \"[^\"]+\" is undefined|use of undeclared identifier"
)
"""Errors whose message names what is missing: the line of source quoted below it tells nothing more. Where a
token was expected, a macro that is missing is often named in that line alone."""
_QUOTED: Final = re.compile(r"^[ \t].*$", re.MULTILINE)
_LEAN_FUNCTION: Final = re.compile(
    r"_ZNK?12kernelwright(?P<owner>6Tensor|7Library|6detail)?(?P<size>\d{1,3})(?P<rest>[A-Za-z_]\w*)"
)
"""A function of the lean headers' namespace or of a class in it, by the Itanium C++ ABI."""
_OPERATORS: Final = Path(__file__).with_name("operators.txt")
_WRITTEN_BY_HAND: Final = frozenset({"from_blob", "index", "index_put", "item"})
_HARMLESS: Final = frozenset(
    (
        "addmm", "bmm", "contiguous", "detach", "empty", "empty_like", "empty_strided", "flatten", "matmul",
        "mm", "new_empty", "numel", "permute", "reshape", "size", "squeeze", "t", "transpose", "unsqueeze",
        "view", "zero", "zeros", "zeros_like",
    )
)  # fmt: skip
"""Functions of many libraries: they describe, allocate, view or multiply tensors. The self-test compares them
with torch's."""


def is_library_suspect(library: Path) -> bool:
    """True where a library built with full headers might compute something else."""
    functions = defined_functions(library)
    return functions is None or any(map(_computes, functions))


def is_error_suspect(log: str, header_dirs: Iterable[Path], full_dirs: Iterable[Path] = ()) -> bool:
    """True where a build that failed might succeed with full headers; the first error of its log decides.

    A header that is missing in `header_dirs` may be there in `full_dirs`.
    """
    errors = list(_ERROR.finditer(log))
    if not errors:
        return not (_MISSING_LIBRARY.search(log) or _ASSEMBLER.search(log))
    first = errors[0]
    if any(first["file"].startswith(str(folder)) for folder in header_dirs):
        return True
    if any(_holds(folder, first.group()) for folder in full_dirs):
        return True
    end = errors[1].start() if len(errors) > 1 else len(log)
    words = _INCLUDED_FROM.sub("", log[first.start() : end])
    if _OWN_WORDS.search(first.group()):
        words = _QUOTED.sub("", words)
    return bool(_HEADER_NAMES.search(words))


def _holds(folder: Path, error: str) -> bool:
    """True where an error misses a header that the folder holds; of files elsewhere nothing is told."""
    found = _MISSING_HEADER.search(error)
    name = PurePosixPath(found[found.lastindex or 0] if found else "")
    return (
        found is not None and not name.is_absolute() and ".." not in name.parts and (folder / name).exists()
    )


def first_error(log: str) -> str:
    """The line of a build's log with the first error."""
    found = _ERROR.search(log)
    lines = (line for line in log.splitlines() if line.strip())
    return found.group() if found else next(lines, "the compiler printed nothing")


def _computes(symbol: str) -> bool:
    """True for a function of the lean headers that stands in for a computation of torch's."""
    found = _LEAN_FUNCTION.match(symbol)
    if found is None:
        return False
    size = int(found["size"])
    name, after = found["rest"][:size], found["rest"][size:]
    # In the ABI an E follows a function's name; a class or namespace is followed by what it contains.
    if not after.startswith("E"):
        return False
    match found["owner"]:
        case "6detail":
            return name == "tensor_of"
        case "7Library":
            return True
    return name.rstrip("_") in _computing()


@cache
def _computing() -> frozenset[str]:
    return (frozenset(_OPERATORS.read_text().split()) | _WRITTEN_BY_HAND) - _HARMLESS
