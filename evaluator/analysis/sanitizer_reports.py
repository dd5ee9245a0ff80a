"""Reads what sanitizers print: the tools of compute-sanitizer, AddressSanitizer, UndefinedBehaviorSanitizer.

Pure text in, plain data out. Whose fault something is, is decided elsewhere. The formats are those of the
Compute Sanitizer manual (2022 to 2026 releases) and of the runtimes of gcc 12 to 15.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MOST_FAULTS: Final = 64
"""Different faults kept of one report."""


class Kind(StrEnum):
    """What went wrong."""

    MEMORY = "memory"
    """An access outside of what was allocated, or to what was freed."""
    RACE = "race"
    UNINITIALIZED = "uninitialized"
    BARRIER = "barrier"
    """A barrier that not all threads reach, or with wrong arguments."""
    UNDEFINED = "undefined"
    """Undefined behaviour that need not touch foreign memory, such as a signed overflow."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a stack."""

    function: str
    """With namespaces, template and call parameters as printed."""
    place: str = ""
    """File and line, such as `cuda.cu:31`; empty without debug information."""
    module: str = ""
    """Path of the library; empty on a GPU."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing a tool complains about; repeats at the same place are one fault."""

    kind: Kind
    headline: str
    frames: tuple[Frame, ...]
    severe: bool = True
    """False for what the tool itself calls a warning."""
    detail: str = ""
    """What the tool says about the address."""


@dataclass(frozen=True, slots=True)
class SanitizerReport:
    """One report."""

    complete: bool
    """Whether the tool reached its summary with everything checked."""
    why: str
    """Why it is not complete."""
    faults: tuple[Fault, ...]


_PREFIX: Final = re.compile(r"^=========[ ]?(.*)$", re.MULTILINE)
_SUMMARY: Final = re.compile(
    r"ERROR SUMMARY: \d+ errors?|RACECHECK SUMMARY: \d+ hazards? displayed \(\d+ errors?, \d+ warnings?\)"
)
_INCOMPLETE: Final = re.compile(
    r"Internal (?:Sanitizer )?Error|terminated before first instrumented API call|No attachable process found"
    r"|[Dd]evice not supported|Detected overflow of tracked|could not be checked|failed to initialize"
)
_HEADLINES: Final = (
    (re.compile(r"Invalid (?:__\w+__|bulk|device) |Malloc/Free [Ee]rror"), Kind.MEMORY),
    (re.compile(r"(?:\w+: )?(?:Race reported|.*Potential (?:WAW|RAW|WAR) hazard)"), Kind.RACE),
    (re.compile(r"Uninitialized|Host API (?:uninitialized )?memory access"), Kind.UNINITIALIZED),
    (re.compile(r"Barrier error|Deadlock detected"), Kind.BARRIER),
    (re.compile(r"Program hit|Potential invalid"), Kind.OTHER),
)  # fmt: skip
_STACK: Final = re.compile(r"(?:^\s+at|Device Frame:|access at|Thread \([\d,]+\) at)\s*(?P<frame>\S.*)")
_LONGEST_FRAME: Final = 4000
_OFFSET_LAST: Final = re.compile(
    r"(?P<function>.+?)[+:]0x[0-9a-fA-F]+(?: in (?P<place>\S+:\d+))?(?: \[.*\])?\s*$"
)
_OFFSET_FIRST: Final = re.compile(
    r"0x[0-9a-fA-F]+ in (?:(?P<place>\S+?:\d+):)?(?P<function>.+?)(?: \[.*\])?\s*$"
)


def read_compute_sanitizer(text: str) -> SanitizerReport:
    """Read the log of memcheck, racecheck, initcheck or synccheck."""
    records = list(_records(_PREFIX.findall(text)))
    heads = [lines[0] for lines in records]
    faults = _distinct(fault for lines in records if (fault := _device_fault(lines)) is not None)
    broken = next((head for head in heads if _INCOMPLETE.search(head)), None)
    if broken is not None:
        return SanitizerReport(False, broken[:300], faults)
    if not any(_SUMMARY.search(head) for head in heads):
        return SanitizerReport(False, "the tool did not reach its summary", faults)
    return SanitizerReport(True, "", faults)


def _records(lines: Iterable[str]) -> Iterator[list[str]]:
    """Group lines: a record starts at the margin, what belongs to it is indented."""
    record: list[str] = []
    for line in lines:
        if line[:1].strip() and record:
            yield record
            record = []
        if line.strip():
            record.append(line.rstrip())
    if record:
        yield record


def _device_fault(lines: list[str]) -> Fault | None:
    head = lines[0].strip()
    kind = next((kind for pattern, kind in _HEADLINES if pattern.match(head)), None)
    if kind is None:
        return None
    severe = not re.match(r"(?:WARN(?:ING)?|INFO)\b", head, re.IGNORECASE)
    frames = tuple(
        _device_frame(found["frame"])
        for line in lines
        if "Host Frame" not in line and (found := _STACK.search(line))
    )
    about = [
        line.strip() for line in lines[1:] if re.match(r"\s+(?:Address|Access to|and is|by thread)", line)
    ]
    headline = head.partition(" at ")[0].removeprefix("Error: ").removeprefix("ERROR: ")
    return Fault(kind, headline, frames, severe, "; ".join(about))


def _device_frame(text: str) -> Frame:
    text = text[:_LONGEST_FRAME]
    found = _OFFSET_FIRST.match(text) or _OFFSET_LAST.match(text)
    if found is None:
        return Frame(text.strip())
    return Frame(found["function"].strip(), found["place"] or "")


_ADDRESS_ERROR: Final = re.compile(r"^==\d+==ERROR: AddressSanitizer:? (?P<what>[^\n]*)", re.MULTILINE)
_RUNTIME_ERROR: Final = re.compile(
    r"^(?P<place>\S+?:\d+)(?::\d+)?: runtime error: (?P<what>[^\n]*)", re.MULTILINE
)
_HOST_FRAME: Final = re.compile(
    r"^\s+#\d+ 0x[0-9a-f]+ in (?P<function>.+?) (?P<place><null>|\S+?:\d+)(?::\d+)?"
    r" \((?P<module>[^()]*)\)\s*$"
)
STACK_FORMAT: Final = "    #%n %p in %f %S (%m)"
"""What `_HOST_FRAME` reads; the module is what tells a candidate's code from a library's."""
_NOT_OUT_OF_BOUNDS: Final = (
    "out of memory", "allocation-size-too-big", "stack-overflow", "FPE", "memcpy-param-overlap"
)  # fmt: skip


def read_address_sanitizer(text: str) -> SanitizerReport:
    """Read what a process printed that ran under AddressSanitizer and UndefinedBehaviorSanitizer."""
    faults = [_undefined(found, text) for found in _RUNTIME_ERROR.finditer(text)]
    error = _ADDRESS_ERROR.search(text)
    if error is not None:
        faults.insert(0, _host_fault(error, text))
        if "SUMMARY: AddressSanitizer" not in text[error.end() :]:
            return SanitizerReport(False, "AddressSanitizer's report breaks off", _distinct(faults))
    elif broken := re.search(r"AddressSanitizer: CHECK failed[^\n]*|AddressSanitizer:DEADLYSIGNAL", text):
        return SanitizerReport(False, broken[0][:300], _distinct(faults))
    return SanitizerReport(True, "", _distinct(faults))


def _host_fault(error: re.Match[str], text: str) -> Fault:
    body = text[error.end() :].partition("\n\n")[0]
    what = error["what"].partition(" (pc ")[0].partition(" at pc ")[0]
    access = re.search(r"^(?:READ|WRITE) of size \d+", body, re.MULTILINE)
    signal = re.search(r"caused by a (?:READ|WRITE) memory access", body)
    located = re.search(r"^0x[0-9a-f]+ is located ([^\n\[]*)", text[error.end() :], re.MULTILINE)
    headline = what.partition(" on address")[0].partition(" on unknown")[0].strip()
    kind = Kind.OTHER if what.startswith(_NOT_OUT_OF_BOUNDS) else Kind.MEMORY
    if access or signal:
        word = (access or signal or error)[0].removeprefix("caused by a ").removesuffix(" memory access")
        headline = f"{headline}: {word}"
    return Fault(kind, headline, _host_frames(body), True, located[1].strip() if located else "")


def _undefined(found: re.Match[str], text: str) -> Fault:
    stack = text[found.end() : found.end() + 20_000].lstrip("\n").split("\n")
    frames: list[str] = []
    for line in stack:
        if not line.lstrip().startswith("#"):
            break
        frames.append(line)
    kind = Kind.MEMORY if "out of bounds" in found["what"] else Kind.UNDEFINED
    own = Frame("", found["place"])
    return Fault(kind, found["what"], (own, *_host_frames("\n".join(frames))))


def _host_frames(text: str) -> tuple[Frame, ...]:
    matches = (_HOST_FRAME.match(line) for line in text.split("\n"))
    return tuple(
        Frame(found["function"], found["place"].replace("<null>", ""), found["module"])
        for found in matches
        if found
    )


def _distinct(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """One fault for each place: a grid of threads makes the same mistake a thousand times."""
    seen: dict[tuple[Kind, str, tuple[Frame, ...]], Fault] = {}
    for fault in faults:
        seen.setdefault((fault.kind, fault.headline, fault.frames), fault)
        if len(seen) >= MOST_FAULTS:
            break
    return tuple(seen.values())
