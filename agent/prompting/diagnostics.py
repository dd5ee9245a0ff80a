"""Parses compiler and Python output: the first root error and the candidate's lines it points at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Final

from kernelwright.agent.prompting.foreign_text import stripped
from kernelwright.agent.prompting.policy import COMPILER_NOTES, LONGEST_DIAGNOSTIC, SOURCE_CONTEXT
from kernelwright.evaluator import BACKENDS

_ERROR: Final = re.compile(
    r"""^(?:
        (?P<file>[^\s:(][^:(\n]*)
        (?:\((?P<line>\d+)\)|:(?P<line2>\d+)(?::\d+)?)
        :[ ](?:catastrophic[ ]|fatal[ ])?error(?:[ ]\#[\w-]+)?:[ ](?P<message>.*)
      | (?P<tool>ptxas|nvlink|ld\.lld|\S*/?ld(?:\.\w+)?|collect2|nvcc|clang|g\+\+|cc1plus)
        (?:[ ]*:)?[ ]*(?:fatal[ ])?error[ ]*:[ ]*(?P<said>.*)
      | .*?(?P<unlinked>undefined[ ](?:reference[ ]to|symbol).*)
    )$""",
    re.VERBOSE,
)
_NOTE: Final = re.compile(r"^[^\s:(][^:(\n]*(?:\(\d+\)|:\d+(?::\d+)?): note(?: #[\w-]+)?: (?P<message>.*)$")
_QUOTED: Final = re.compile(r"^\s*\d+ \| (?P<text>.*)$")
_FRAME: Final = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_NEEDED: Final = re.compile(
    r"^(?P<gcc>[^\s:][^:\n]*:\d+):\d+:\s+required from here|at line (?P<line>\d+) of (?P<nvcc>\S+)$"
)
_SYSTEM: Final = re.compile(r"site-packages|/torch/include/|^/usr/|/cuda[\w.-]*/|^/opt/|lib/python3")
_AFTERMATH: Final = re.compile(r"ld returned \d+ exit status|linker command failed|compilation terminated")
_KERNEL_ERROR: Final = re.compile(r"^(?:[\w.]*(?:error|Error)(?:\[[^\]]*\])?): (?P<message>.+)$")
_PATH: Final = re.compile(r"(?<![\w.)\]])(?:/[\w.+-]+)+/(?=[\w.+-])")


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of the candidate."""

    number: int
    text: str
    marked: bool
    """True if the error points at it."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The first root error of a log and the number of others."""

    message: str
    place: str = ""
    """File and line as the tool names them, without folders."""
    source: tuple[SourceLine, ...] = ()
    """The candidate's lines around it; empty if the error is elsewhere."""
    quoted: str = ""
    """The line the compiler quotes, if the candidate has no such line."""
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """The next different errors."""
    more: int = 0
    in_headers: bool = False
    """True if the error is in a header of the system or of torch."""


def read_compiler_log(log: str, code: str) -> Diagnosis | None:
    """Find the cause of a failed build; None if the log names no error.

    Errors in the candidate's own sources come before those in headers, which they usually cause.
    """
    lines = log.splitlines()
    errors = [error for error in _errors(lines) if not _AFTERMATH.search(error.message)]
    if not errors:
        return None
    first = next((error for error in errors if not error.in_headers), errors[0])
    others = [f"{one.place}: {shortened(one.message, 200)}" for one in errors if one.message != first.message]
    different = list(dict.fromkeys(others))
    source = _around(code, first.quoted)
    return replace(
        first,
        source=source,
        quoted="" if source else first.quoted,
        others=tuple(different[:2]),
        more=max(0, len(different) - 2),
    )


def read_traceback(text: str, code: str) -> Diagnosis | None:
    """Find the last exception of a traceback and the candidate's line that led to it."""
    lines = text.splitlines()
    frames = [(index, match) for index, line in enumerate(lines) if (match := _FRAME.match(line))]
    if not frames:
        return None
    last = frames[-1][0]
    said = [line for line in lines[last + 1 :] if line.strip() and not line.startswith((" ", "\t"))]
    source: tuple[SourceLine, ...] = ()
    own = code.splitlines()
    for index, match in reversed(frames):
        number = int(match["line"])
        shown = lines[index + 1].strip() if index + 1 < len(lines) else ""
        if shown and number <= len(own) and own[number - 1].strip() == shown:
            source = _window(own, number)
            break
    return Diagnosis(message=shortened(" ".join(said)) or "an exception", source=source)


def read_kernel_error(text: str, code: str) -> Diagnosis | None:
    """Find the error of a kernel language's compiler in a Python function; None for other text."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        matches = (pointer.fullmatch(line.strip()) for pointer in _error_pointers())
        pointed = next((match for match in matches if match), None)
        if pointed is None:
            continue
        if "line" not in pointed.groupdict():
            return _quoted_function(lines[index + 1 :], code)
        number = int(pointed["line"])
        said = [match for above in lines[:index] if (match := _KERNEL_ERROR.match(above.strip()))]
        own = code.splitlines()
        message = said[-1]["message"] if said else " ".join(lines[max(0, index - 2) : index])
        source = _window(own, number) if number <= len(own) else ()
        return Diagnosis(message=shortened(message) or "an error", source=source)
    return None


@cache
def _error_pointers() -> tuple[re.Pattern[str], ...]:
    texts = dict.fromkeys(backend.error_pointer for backend in BACKENDS.values())
    return tuple(re.compile(text) for text in texts if text)


def _quoted_function(lines: list[str], code: str) -> Diagnosis | None:
    for index, line in enumerate(lines[1:], 1):
        if line.strip() == "^":
            message = shortened(" ".join(lines[index + 1 : index + 5]))
            quoted = lines[index - 1].strip()
            source = _around(code, quoted)
            return Diagnosis(message=message or "an error", source=source, quoted="" if source else quoted)
    return None


def shortened(text: str, limit: int = LONGEST_DIAGNOSTIC) -> str:
    """Join a text into one line without folders in its paths, cut to a length."""
    line = _PATH.sub("", " ".join(stripped(text).split()))
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def tail(text: str, *, lines: int, characters: int) -> str:
    """Return the end of a text, in whole lines if they fit, paths without folders."""
    kept = "\n".join(stripped(text).strip("\n").splitlines()[-lines:])
    return _PATH.sub("", kept[-characters:])


def _errors(lines: list[str]) -> Iterator[Diagnosis]:
    for index, line in enumerate(lines):
        match = _ERROR.match(line)
        if match is None:
            continue
        file, number = match["file"] or "", match["line"] or match["line2"] or ""
        message = match["message"] or match["said"] or match["unlinked"]
        yield Diagnosis(
            message=shortened(message),
            place=f"{file.rpartition('/')[2]}:{number}" if file else match["tool"] or "linker",
            quoted=_quoted(lines[index + 1 : index + 8]) if file else "",
            in_headers=bool(_SYSTEM.search(file)),
            notes=tuple([*_needed_at(lines, index), *_notes(lines[index + 1 : index + 40])][:COMPILER_NOTES]),
        )


def _quoted(following: list[str]) -> str:
    for above, line in pairwise(following):
        if "^" in line and not line.strip(" \t|~^"):
            numbered = _QUOTED.match(above)
            return (numbered["text"] if numbered else above).strip()
    return ""


def _needed_at(lines: list[str], index: int) -> Iterator[str]:
    for line in (*reversed(lines[max(0, index - 3) : index]), *lines[index + 1 : index + 12]):
        needed = _NEEDED.search(line)
        if needed is not None and not _SYSTEM.search(line):
            place = needed["gcc"] or f"{needed['nvcc']}:{needed['line']}"
            yield f"needed at {place.rpartition('/')[2]}"
            return


def _notes(following: list[str]) -> list[str]:
    notes: list[str] = []
    for line in following:
        if _ERROR.match(line):
            break
        note = _NOTE.match(line)
        if note and not _SYSTEM.search(line):
            notes.append(shortened(note["message"], 200))
    return notes[:COMPILER_NOTES]


def _around(code: str, quoted: str) -> tuple[SourceLine, ...]:
    lines = code.splitlines()
    if not quoted:
        return ()
    found = [number for number, line in enumerate(lines, 1) if line.strip() == quoted]
    return _window(lines, found[0]) if found else ()


def _window(lines: list[str], number: int) -> tuple[SourceLine, ...]:
    begin, end = max(1, number - SOURCE_CONTEXT), min(len(lines), number + SOURCE_CONTEXT)
    return tuple(
        SourceLine(at, lines[at - 1][:200].rstrip(), marked=at == number) for at in range(begin, end + 1)
    )
