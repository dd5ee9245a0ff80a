"""Selects the facts of an evaluation that a model can act on; the text is in `prompts/feedback.md.j2`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kernelwright.agent.prompting.diagnostics import (
    Diagnosis,
    read_compiler_log,
    read_kernel_error,
    read_traceback,
    shortened,
    tail,
)
from kernelwright.agent.prompting.hardware_facts import Hardware
from kernelwright.agent.prompting.policy import (
    BANK_CONFLICTS,
    FINDINGS,
    KERNELS,
    KERNELS_COUNTED,
    LAUNCH_BOUND_MS,
    OUTPUT_CHARACTERS,
    OUTPUT_LINES,
    WIDEST_SECTORS,
    WRONG_ELEMENTS,
)
from kernelwright.agent.records.score_policy import exclusion_reason
from kernelwright.evaluator import (
    Evaluation,
    Finding,
    KernelCounters,
    Measurement,
    Mismatch,
    Sanitization,
    Status,
)

_LENGTH: Final = re.compile(r"[1-9][0-9]{0,3}")


class Bound(StrEnum):
    """The resource that bounds a correct kernel."""

    MEMORY = "memory"
    ARITHMETIC = "arithmetic"
    LAUNCH = "launch"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class WrongElement:
    """One wrong value."""

    index: str
    expected: str
    actual: str


@dataclass(frozen=True, slots=True)
class WrongValues:
    """Location, size and pattern of an output's error."""

    output: str
    trial: str
    wrong: int
    total: int
    share: float
    """Wrong elements of all, 0 to 1."""
    elements: tuple[WrongElement, ...]
    max_abs_error: float
    error_ratio: float
    limit_ratio: float
    pattern: str

    @property
    def is_slight(self) -> bool:
        """True if the error resembles rounding: many elements, within 5000 times the limit."""
        return self.error_ratio < 5000 * self.limit_ratio and self.share > 0.01


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed of a correct kernel, and its bound."""

    speedup: float
    low: float
    high: float
    against: str
    median_ms: float
    baselines_ms: dict[str, float]
    bound: Bound
    roofline_ms: float | None
    """Time at the target's peak rates."""
    fraction: float | None
    """Share of the roofline, 0 to about 1."""
    is_dense: bool
    """The roofline is that of all work, though the problem masks some, which may be skipped."""
    is_beaten: bool
    """The kernel does less than the reference's operations, whose roofline it is."""
    ahead: str
    """The fastest baseline or saved kernel, where it is faster; empty otherwise."""
    ahead_by: float
    """Time of this kernel over the time of that; 1 where none is faster."""
    unfit: str
    """The reason why the speedup is not to be compared; empty where it is."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One kernel that a trace saw."""

    name: str
    is_own: bool


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """Resources of a multiprocessor that one compiled kernel takes."""

    name: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    threads: int | None
    """Threads of a multiprocessor that the registers allow; None if its registers are unknown."""
    most_threads: int | None
    """Threads that a multiprocessor has."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Findings of the hardware counters of one kernel; None and empty if there is nothing to act on."""

    name: str
    milliseconds: float
    used: dict[str, float]
    """Percent of the peak, by unit."""
    active_warps: float | None
    """Percent of the warps a multiprocessor can hold."""
    waits: dict[str, float]
    """Cycles an instruction waited, by reason, longest first."""
    scattered: dict[str, float]
    """32-byte sectors a warp's access takes, of loads and stores that are not contiguous."""
    conflicts: float | None
    """Percent of the passes through shared memory that bank conflicts added."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """The facts of an evaluation that feedback states."""

    status: Status
    stage: str
    detail: str
    diagnosis: Diagnosis | None
    output_tail: str
    wrong: WrongValues | None
    speed: Speed | None
    rules: tuple[Finding, ...]
    """Rules of the screening that the candidate broke."""
    sanitizer: tuple[str, ...]
    kernels: tuple[Ran, ...]
    """Kernels that ran, the longest first; empty without a trace."""
    taken: tuple[ResourceUse, ...]
    """Resources of compiled kernels; empty if unknown."""
    counted: tuple[Counted, ...]
    """Hardware counters; empty if not measured."""
    track: str
    """`own`, `mixed`, `library` or empty: origin of the kernels that ran."""
    flags: tuple[str, ...]
    """Changes that builds made to the candidate's flags."""


def collect(
    evaluation: Evaluation,
    code: str | None,
    hardware: Hardware | None = None,
    saved: Evaluation | None = None,
) -> Feedback:
    """Collect the facts of an evaluation; `code` is the candidate's source, if the reply held one.

    `saved` is the fastest saved kernel of the problem under the same policy.
    """
    source = code or ""
    verification, sanitization = evaluation.verification, evaluation.sanitization
    mismatch = verification.mismatch if verification else None
    return Feedback(
        status=evaluation.status,
        stage=evaluation.stage.value,
        detail=shortened(evaluation.detail, 600),
        diagnosis=_diagnosis(evaluation, source),
        output_tail=tail(evaluation.output_tail, lines=OUTPUT_LINES, characters=OUTPUT_CHARACTERS),
        wrong=_wrong_values(mismatch) if mismatch else None,
        speed=_speed(evaluation, evaluation.measurement, hardware, saved) if evaluation.measurement else None,
        rules=tuple(finding for finding in evaluation.findings if finding.fatal)[:FINDINGS],
        sanitizer=_reports(sanitization) if sanitization else (),
        kernels=_ran(evaluation.attribution.kernels) if evaluation.attribution else (),
        taken=_taken(evaluation, hardware),
        counted=tuple(map(_counted, evaluation.counters.kernels[:KERNELS_COUNTED]))
        if evaluation.counters
        else (),
        track=evaluation.attribution.track if evaluation.attribution else "",
        flags=tuple(
            dict.fromkeys(shortened(note, 200) for build in evaluation.builds for note in build.notes)
        ),
    )


def _ran(kernels: Sequence[str]) -> tuple[Ran, ...]:
    parts = [text.partition(": ") for text in kernels[:KERNELS]]
    return tuple(Ran(name=shortened(name, 80), is_own=whose == "own") for whose, _, name in parts if name)


def _taken(evaluation: Evaluation, hardware: Hardware | None) -> tuple[ResourceUse, ...]:
    kernels = [kernel for build in evaluation.builds for kernel in build.resources]
    kernels.sort(key=lambda kernel: (-kernel.registers, kernel.kernel))
    return tuple(
        ResourceUse(
            name=plain_name(kernel.kernel),
            registers=kernel.registers,
            shared_bytes=kernel.shared_bytes,
            stack_bytes=kernel.stack_bytes,
            threads=_resident(kernel.registers, hardware),
            most_threads=hardware.threads_per_sm if hardware else None,
        )
        for kernel in kernels[:KERNELS]
    )


def _counted(kernel: KernelCounters) -> Counted:
    used = {
        "arithmetic and issue": kernel.compute_percent,
        "tensor cores": kernel.tensor_percent,
        "L1 and shared memory": kernel.l1_percent,
        "L2": kernel.l2_percent,
        "DRAM": kernel.dram_percent,
    }
    sectors = {"loads": kernel.sectors_per_load, "stores": kernel.sectors_per_store}
    conflicts = kernel.conflict_share
    return Counted(
        name=shortened(kernel.kernel.partition("(")[0].removeprefix("void "), 80),
        milliseconds=kernel.milliseconds,
        used={unit: percent for unit, percent in used.items() if percent},
        active_warps=kernel.active_warps_percent,
        waits=kernel.stalls,
        scattered={name: count for name, count in sectors.items() if count and count > WIDEST_SECTORS},
        conflicts=100 * conflicts if conflicts and conflicts > BANK_CONFLICTS else None,
    )


def _resident(registers: int, hardware: Hardware | None) -> int | None:
    if hardware is None or hardware.registers_per_sm is None or hardware.threads_per_sm is None:
        return None
    of_warp = 32 * -(-max(1, registers) // 8) * 8
    return min(hardware.threads_per_sm, hardware.registers_per_sm // of_warp * 32)


def plain_name(mangled: str) -> str:
    """Demangle a name, without namespaces, arguments and template arguments."""
    place, found = re.match(r"_ZN?", mangled), mangled
    at = place.end() if place else len(mangled)
    while length := _LENGTH.match(mangled, at):
        at = length.end() + int(length[0])
        found = mangled[length.end() : at]
    return shortened(found, 80)


def _reports(sanitization: Sanitization) -> tuple[str, ...]:
    if sanitization.convicts is None:
        return ()
    return tuple(shortened(text) for text in sanitization.findings[:FINDINGS])


def _diagnosis(evaluation: Evaluation, code: str) -> Diagnosis | None:
    failed = next((build for build in evaluation.builds if not build.ok), None)
    if evaluation.status is Status.COMPILE_ERROR and failed is not None:
        found = read_compiler_log(failed.log, code)
        return found or Diagnosis(message=tail(failed.log, lines=12, characters=1200) or "no message")
    if evaluation.status is Status.COMPILE_ERROR:
        found = _kernel_diagnosis(evaluation, code)
        if found is not None:
            return found
    if evaluation.status in (Status.RUNTIME_ERROR, Status.COMPILE_ERROR):
        said = (evaluation.traceback, evaluation.output_tail, evaluation.detail)
        return next((found for text in said if (found := read_traceback(text, code))), None)
    return None


def _kernel_diagnosis(evaluation: Evaluation, code: str) -> Diagnosis | None:
    for read in (read_kernel_error, read_compiler_log):
        for said in (evaluation.detail, evaluation.traceback):
            found = read(said, code)
            if found is not None:
                return found
    return None


def _wrong_values(mismatch: Mismatch) -> WrongValues:
    elements = [
        WrongElement(index=", ".join(map(str, index)), expected=f"{expected:.6g}", actual=f"{actual:.6g}")
        for index, expected, actual in zip(
            mismatch.first_indices, mismatch.expected, mismatch.actual, strict=False
        )
    ]
    return WrongValues(
        output=mismatch.output,
        trial=mismatch.trial.replace("_", " "),
        wrong=mismatch.wrong,
        total=mismatch.total,
        share=mismatch.wrong / max(1, mismatch.total),
        elements=tuple(elements[:WRONG_ELEMENTS]),
        max_abs_error=mismatch.max_abs_error,
        error_ratio=mismatch.error_ratio,
        limit_ratio=mismatch.limit_ratio,
        pattern=mismatch.pattern,
    )


def _speed(
    evaluation: Evaluation, measured: Measurement, hardware: Hardware | None, saved: Evaluation | None
) -> Speed:
    median_ms = measured.candidate.median_ms
    bound, roofline_ms = _roofline(evaluation, hardware)
    fraction = evaluation.plausibility.speed_of_light if evaluation.plausibility else None
    if fraction is None and roofline_ms is not None and median_ms > 0:
        fraction = roofline_ms / median_ms
    if hardware is not None and hardware.kind == "cuda" and median_ms < LAUNCH_BOUND_MS:
        bound = Bound.LAUNCH
    faster = {name: 1 / times for name, times in measured.speedups.items() if times > 0}
    if saved is not None and saved.speedup is not None and measured.speedup > 0:
        faster[f"a saved {saved.backend} kernel"] = saved.speedup / measured.speedup
    ahead = max(faster, key=lambda name: faster[name], default="")
    is_behind = bool(ahead) and faster[ahead] > 1
    return Speed(
        speedup=measured.speedup,
        low=measured.interval.low,
        high=measured.interval.high,
        against=measured.against,
        median_ms=median_ms,
        baselines_ms={name: timing.median_ms for name, timing in measured.baselines.items()},
        bound=bound,
        roofline_ms=roofline_ms,
        fraction=fraction,
        is_dense=evaluation.plausibility.dense if evaluation.plausibility else False,
        is_beaten=evaluation.plausibility.is_beaten if evaluation.plausibility else False,
        ahead=ahead if is_behind else "",
        ahead_by=faster[ahead] if is_behind else 1.0,
        unfit=exclusion_reason(evaluation),
    )


def _roofline(evaluation: Evaluation, hardware: Hardware | None) -> tuple[Bound, float | None]:
    work = evaluation.plausibility
    if work is None:
        return Bound.UNKNOWN, None
    bandwidth = work.gigabytes_per_s or (hardware.bandwidth_gb_s if hardware else None)
    peak = work.teraflops or (hardware.peak_tflops(evaluation.config.math) if hardware else None)
    memory_ms = work.bytes_moved / bandwidth / 1e6 if bandwidth else None
    arithmetic_ms = work.flops / peak / 1e9 if peak and work.flops else None
    if memory_ms is None or (arithmetic_ms is None and work.flops):
        return Bound.UNKNOWN, None
    if arithmetic_ms is not None and arithmetic_ms > memory_ms:
        return Bound.ARITHMETIC, arithmetic_ms
    return Bound.MEMORY, memory_ms
