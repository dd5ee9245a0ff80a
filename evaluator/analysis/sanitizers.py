"""Finds this machine's sanitizers, starts processes under them, and decides which faults fail a candidate.

A candidate runs in the sanitized process, so a clean report is advice. Only an error in code that the
candidate wrote fails it, and only where it cannot be a false alarm of the tool.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from kernelwright.evaluator.analysis import policy
from kernelwright.evaluator.analysis.sanitizer_reports import (
    STACK_FORMAT,
    Fault,
    FaultKind,
    Frame,
    SanitizerReport,
    read_address_sanitizer,
    read_compute_sanitizer,
)
from kernelwright.evaluator.sandbox import SandboxPolicy, unseen_binds
from kernelwright.evaluator.schema.evaluation import Status

ADDRESS: Final = "address"
"""The tool of the CPU: AddressSanitizer and UndefinedBehaviorSanitizer in one process."""
_TOOL_OPTIONS: Final = {
    # Padding, because memory right behind an allocation may belong to the next one.
    "memcheck": ("--leak-check", "no", "--report-api-errors", "no", "--padding", "4096"),
    "racecheck": ("--racecheck-report", "analysis"),
}
_ASAN: Final = (
    "detect_leaks=0:halt_on_error=1:abort_on_error=1:detect_odr_violation=0:alloc_dealloc_mismatch=0:"
    "allocator_may_return_null=1:malloc_context_size=4:quarantine_size_mb=64:detect_container_overflow=0"
)
_UBSAN: Final = "print_stacktrace=1:halt_on_error=0"
_PRELOAD: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).personality(0x40000);"
    " os.environ['LD_PRELOAD'] = sys.argv[1]; os.execv(sys.argv[2], sys.argv[2:])"
)
"""Starts the program without address randomisation, which collides with older runtimes' shadow memory."""


@dataclass(frozen=True, slots=True)
class Sanitizers:
    compute: Path | None
    """The compute-sanitizer program."""
    preload: tuple[Path, ...]
    """AddressSanitizer's runtime and the library to load right after it; empty without one."""

    def missing(self, device: str) -> str:
        """The reason why a device's candidates cannot be sanitized here; empty when they can."""
        if device == "cpu":
            return "" if self.preload else "the C++ compiler brings no AddressSanitizer runtime (libasan.so)"
        return "" if self.compute else "compute-sanitizer is not installed; it is part of the CUDA toolkit"


@cache
def find_sanitizers(compiler: Path | None) -> Sanitizers:
    return Sanitizers(find_cuda_tool("compute-sanitizer"), _find_runtime(compiler) if compiler else ())


@dataclass(slots=True)
class SanitizerRun:
    """One process under one tool: its command, sandbox policy and report."""

    sanitizers: Sanitizers
    tool: str
    log: int = field(init=False, default_factory=lambda: os.memfd_create("report"))
    """Descriptor of the tool's own log, an anonymous file that candidates do not print to."""
    libraries: list[Path] = field(default_factory=list)
    """Libraries built for the process."""
    sources: dict[str, str] = field(default_factory=dict)
    """Compiled texts by file name."""

    def command(self, argv: list[str]) -> list[str]:
        if self.tool == ADDRESS:
            libraries = " ".join(map(str, self.sanitizers.preload))
            return [sys.executable, "-I", "-S", "-c", _PRELOAD, libraries, *argv]
        options = ["--tool", self.tool, "--log-file", f"/proc/self/fd/{self.log}", "--print-limit", "1000"]
        options += ["--show-backtrace", "device", "--check-exit-code", "no", "--launch-timeout", "60"]
        options += ["--target-processes", "application-only", *_TOOL_OPTIONS.get(self.tool, ())]
        return [str(self.sanitizers.compute), *options, *argv]

    def policy(self, contestant: SandboxPolicy) -> SandboxPolicy:
        """A contestant's policy, widened for the tool."""
        added = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        needed = [self.sanitizers.compute.parent] if self.sanitizers.compute else []
        if self.tool == ADDRESS:
            form = f"stack_trace_format='{STACK_FORMAT}'"
            added = {"ASAN_OPTIONS": f"{_ASAN}:{form}", "UBSAN_OPTIONS": f"{_UBSAN}:{form}"}
            needed = list(self.sanitizers.preload)
        return replace(
            contestant,
            nested=True,
            environment={**contestant.environment, **added},
            memory_bytes=contestant.memory_bytes * policy.SANITIZER_MEMORY_FACTOR,
            binds=(*contestant.binds, *unseen_binds(needed, contestant.binds)),
        )

    def report(self, output: str, source: str) -> dict[str, Any]:  # Any: JSON for the referee
        """The tool's report for the referee: completeness, and findings with a status."""
        if self.tool == ADDRESS:
            report = read_address_sanitizer(output)
        else:
            log = os.pread(self.log, policy.MAX_LOG_BYTES, 0).decode("utf-8", "replace")
            report = read_compute_sanitizer(log)
            if not log:
                report = replace(report, why=f"the tool wrote nothing; printed was: {output[-300:].strip()}")
        code = CandidateCode(source, tuple(path.read_bytes() for path in self.libraries if path.exists()))
        return assess_report(self.tool, report, code, self.sources)

    def close(self) -> None:
        os.close(self.log)


_LIBRARY_FOLDER: Final = "/libraries/"
"""In the path of all libraries built for a contestant; see `RuntimeImage.built_folder`."""
_FOREIGN_NAMESPACES: Final = frozenset(
    ("at", "c10", "torch", "cub", "thrust", "cuda", "cutlass", "cudnn", "std")
)
_HEADER_LIBRARIES: Final = frozenset(("cub", "thrust", "cuda"))
"""NVIDIA's code in a candidate's library, for which racecheck has known false alarms."""
_UNFOLLOWED_BARRIERS: Final = re.compile(
    r"mbarrier\.|\bbar\.(?:sync|arrive|red)|\bbarrier\.|cp\.async\.bulk|wgmma\.|tcgen05\."
)


@dataclass(frozen=True, slots=True)
class CandidateCode:
    """A candidate's source and libraries, to tell its code from others'."""

    source: str
    libraries: tuple[bytes, ...]
    """Contents of the libraries built for it."""

    def contains(self, frame: Frame) -> bool:
        """True for a stack frame in code that was compiled from the candidate's C++ or CUDA text."""
        if frame.module:
            return _LIBRARY_FOLDER in frame.module
        path = _qualified(frame.function)
        if not path:
            return bool(frame.place) and not frame.place.startswith("/")
        mangled = "".join(f"{len(part)}{part}" for part in path).encode()
        if any(mangled in library for library in self.libraries):
            return True
        plain = b"\0" + path[-1].encode() + b"\0"
        if len(path) == 1 and any(plain in library for library in self.libraries):
            return True
        pattern = rf"__global__[^;{{]*?\b{re.escape(path[-1])}\s*\("
        return path[0] not in _FOREIGN_NAMESPACES and re.search(pattern, self.source) is not None

    def generated(self, frame: Frame) -> bool:
        """True for a kernel that a compiler such as Triton's made from a function of the candidate."""
        path = _qualified(frame.function)
        return len(path) == 1 and re.search(rf"\bdef {re.escape(path[0])}\b", self.source) is not None

    @property
    def has_ptx_barriers(self) -> bool:
        """True where the source has barriers in PTX, which racecheck does not follow."""
        return _UNFOLLOWED_BARRIERS.search(self.source) is not None


def assess_report(
    tool: str, report: SanitizerReport, code: CandidateCode, sources: Mapping[str, str]
) -> dict[str, Any]:  # Any: JSON for the referee
    """Attach a status to each fault that fails the candidate; the others are remarks."""
    complete, why = report.complete, report.why
    findings = []
    for fault in report.faults:
        status = _status(fault, code)
        if status is Status.RACE and code.has_ptx_barriers:
            status = None
            complete, why = False, "racecheck does not follow barriers written in PTX, and saw races"
        mine = any(code.contains(frame) or code.generated(frame) for frame in fault.frames)
        text = f"{tool}: {_describe(fault, code, sources)}{'' if mine else ' (not in code of the candidate)'}"
        findings.append({"status": status.value if status else "", "text": text})
    findings.sort(key=lambda finding: not finding["status"])
    return {"complete": complete, "why": why, "findings": findings[: policy.MAX_FAULT_FINDINGS]}


def _status(fault: Fault, code: CandidateCode) -> Status | None:
    if not fault.severe:
        return None
    written = any(code.contains(frame) for frame in fault.frames)
    match fault.kind:
        case FaultKind.MEMORY:
            own = written or any(code.generated(frame) for frame in fault.frames)
            return Status.MEMORY_ERROR if own else None
        case FaultKind.RACE:
            inside_headers = all(
                _HEADER_LIBRARIES.intersection(_qualified(frame.function)[:1]) for frame in fault.frames
            )
            return Status.RACE if written and not inside_headers else None
        case FaultKind.UNINITIALIZED | FaultKind.BARRIER | FaultKind.UNDEFINED | FaultKind.OTHER:
            return None


def _describe(fault: Fault, code: CandidateCode, sources: Mapping[str, str]) -> str:
    own = [frame for frame in fault.frames if code.contains(frame)] or list(fault.frames)
    named = [frame for frame in own if frame.function] or own
    places = []
    for frame in named[: 2 if fault.kind is FaultKind.RACE else 1]:
        name = frame.function.partition("(")[0].strip() if len(frame.function) > 80 else frame.function
        line = _line_at(frame.place, sources)
        place = f" ({Path(frame.place).name}{f': {line}' if line else ''})" if frame.place else ""
        places.append(f"{name}{place}".strip())
    where = f", {' and '.join(places)}" if places else ""
    return f"{fault.headline}{where}{f'; {fault.detail}' if fault.detail else ''}"[:700]


def _line_at(place: str, sources: Mapping[str, str]) -> str:
    name, _, number = Path(place).name.rpartition(":")
    text = next((text for path, text in sources.items() if Path(path).name == name), "")
    lines = text.splitlines()
    if not number.isdigit() or not 0 < int(number) <= len(lines):
        return ""
    return f"`{lines[int(number) - 1].strip()[:120]}`"


@cache
def _qualified(function: str) -> tuple[str, ...]:
    """Namespaces and name of a demangled function: `void a::f<int>(int*)` is `("a", "f")`."""
    text = re.sub(r"^\[clone (.*)\] .*", r"\1", function).replace("(anonymous namespace)::", "")
    name = re.split(r"[<(]", text, maxsplit=1)[0].strip().rpartition(" ")[2]
    return tuple(part for part in name.split("::") if re.fullmatch(r"[\w$]+", part))


def find_cuda_tool(name: str) -> Path | None:
    """A program of the CUDA toolkit: on PATH, in the toolkit's usual folders, or in a wheel of NVIDIA's."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", "/opt/cuda"]
    parts = ("bin", "compute-sanitizer", "extras/compute-sanitizer")
    folders = [Path(home) / part for home in homes if home for part in parts]
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec else ():
        folders += sorted(Path(root).glob("*/compute-sanitizer"))
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, folders)))
    return Path(found).resolve() if found else None


def _find_runtime(compiler: Path) -> tuple[Path, ...]:
    """libasan, then libstdc++, without which the first exception thrown ends the process."""
    libraries = []
    for name in ("libasan.so", "libstdc++.so.6"):
        try:
            answer = subprocess.run(
                [compiler, f"-print-file-name={name}"],
                capture_output=True,
                text=True,
                timeout=policy.FIND_RUNTIME_S,
                check=True,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.SubprocessError):
            return ()
        path = Path(answer.stdout.strip())
        if not path.is_absolute() or not path.exists():
            return ()
        libraries.append(path.resolve())
    return tuple(libraries)
