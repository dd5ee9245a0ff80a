"""Parses reports of compute-sanitizer, AddressSanitizer and UndefinedBehaviorSanitizer.

`sanitizers` decides which faults are the candidate's. Formats: the Compute Sanitizer manual (releases of 2022
to 2026) and the runtimes of gcc 12 to 15.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kernelwright.evaluator.analysis.policy import MAX_FAULTS, MAX_FRAME_CHARACTERS, MAX_STACK_CHARACTERS


class FaultKind(StrEnum):
    MEMORY = "memory"
    """An access outside of allocated memory, or to freed memory."""
    RACE = "race"
    UNINITIALIZED = "uninitialized"
    BARRIER = "barrier"
    """A barrier that some threads do not reach, or with wrong arguments."""
    UNDEFINED = "undefined"
    """Undefined behaviour without a wrong access, such as a signed overflow."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Frame:
    function: str
    """With namespaces, template and call parameters as printed."""
    place: str = ""
    """File and line, such as `cuda.cu:31`; empty without debug information."""
    module: str = ""
    """Path of the library; empty on a GPU."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One reported error; repetitions at the same place are one fault."""

    kind: FaultKind
    headline: str
    frames: tuple[Frame, ...]
    severe: bool = True
    """False for a warning of the tool."""
    detail: str = ""
    """The tool's remark about the address."""


@dataclass(frozen=True, slots=True)
class SanitizerReport:
    """The faults of one run of a tool."""

    complete: bool
    """True where the tool reached its summary with everything checked."""
    why: str
    """The reason why it is incomplete."""
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
    (re.compile(r"Invalid (?:__\w+__|bulk|device) |Malloc/Free [Ee]rror"), FaultKind.MEMORY),
    (re.compile(r"(?:\w+: )?(?:Race reported|.*Potential (?:WAW|RAW|WAR) hazard)"), FaultKind.RACE),
    (re.compile(r"Uninitialized|Host API (?:uninitialized )?memory access"), FaultKind.UNINITIALIZED),
    (re.compile(r"Barrier error|Deadlock detected"), FaultKind.BARRIER),
    (re.compile(r"Program hit|Potential invalid"), FaultKind.OTHER),
)  # fmt: skip
_STACK: Final = re.compile(r"(?:^\s+at|Device Frame:|access at|Thread \([\d,]+\) at)\s*(?P<frame>\S.*)")
_OFFSET_LAST: Final = re.compile(
    r"(?P<function>.+?)[+:]0x[0-9a-fA-F]+(?: in (?P<place>\S+:\d+))?(?: \[.*\])?\s*$"
)
_OFFSET_FIRST: Final = re.compile(
    r"0x[0-9a-fA-F]+ in (?:(?P<place>\S+?:\d+):)?(?P<function>.+?)(?: \[.*\])?\s*$"
)


def read_compute_sanitizer(text: str) -> SanitizerReport:
    """Parse the log of memcheck, racecheck, initcheck or synccheck."""
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
    text = text[:MAX_FRAME_CHARACTERS]
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
"""The format `_HOST_FRAME` parses; the module tells a candidate's code from a library's."""
_NOT_OUT_OF_BOUNDS: Final = (
    "out of memory", "allocation-size-too-big", "stack-overflow", "FPE", "memcpy-param-overlap"
)  # fmt: skip


def read_address_sanitizer(text: str) -> SanitizerReport:
    """Parse the output of a process under AddressSanitizer and UndefinedBehaviorSanitizer."""
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
    kind = FaultKind.OTHER if what.startswith(_NOT_OUT_OF_BOUNDS) else FaultKind.MEMORY
    if access or signal:
        word = (access or signal or error)[0].removeprefix("caused by a ").removesuffix(" memory access")
        headline = f"{headline}: {word}"
    return Fault(kind, headline, _host_frames(body), True, located[1].strip() if located else "")


def _undefined(found: re.Match[str], text: str) -> Fault:
    stack = text[found.end() : found.end() + MAX_STACK_CHARACTERS].lstrip("\n").split("\n")
    frames: list[str] = []
    for line in stack:
        if not line.lstrip().startswith("#"):
            break
        frames.append(line)
    kind = FaultKind.MEMORY if "out of bounds" in found["what"] else FaultKind.UNDEFINED
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
    """One fault for each place: the threads of a grid repeat the same error."""
    seen: dict[tuple[FaultKind, str, tuple[Frame, ...]], Fault] = {}
    for fault in faults:
        seen.setdefault((fault.kind, fault.headline, fault.frames), fault)
        if len(seen) >= MAX_FAULTS:
            break
    return tuple(seen.values())
