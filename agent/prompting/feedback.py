"""Derives the facts of an evaluation that a model can act on; the text is in `prompts/feedback.md.j2`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from kernelwright.agent.prompting.diagnostics import (
    Diagnosis,
    read_compiler_log,
    read_kernel_error,
    read_traceback,
    shortened,
    tail,
)
from kernelwright.agent.prompting.hardware_facts import Hardware
from kernelwright.agent.prompting.policy import KERNELS, LAUNCH_BOUND_MS
from kernelwright.evaluator import Evaluation, KernelResources, Measurement, Status

Bound: TypeAlias = Literal["memory", "arithmetic", "launch", ""]
"""The resource that bounds a kernel; empty where it is not known."""

_LENGTH: Final = re.compile(r"[1-9][0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class Speed:
    """The bound of a correct kernel, and the fastest of what it was compared with."""

    bound: Bound
    roofline_ms: float | None
    """Time at the target's peak rates."""
    fraction: float | None
    """Share of the roofline, 0 to about 1."""
    ahead: str
    """The fastest baseline or saved kernel, where it is faster; empty otherwise."""
    ahead_by: float
    """Time of this kernel over the time of that; 1 where none is faster."""


def speed_of(
    evaluation: Evaluation, measured: Measurement, hardware: Hardware | None, saved: Evaluation | None
) -> Speed:
    """Place a measurement on the roofline; `saved` is the problem's fastest kernel under the same policy."""
    median_ms = measured.candidate.median_ms
    bound, roofline_ms = _measured_roofline(evaluation, hardware)
    fraction = evaluation.plausibility.speed_of_light if evaluation.plausibility else None
    if fraction is None and roofline_ms is not None and median_ms > 0:
        fraction = roofline_ms / median_ms
    if hardware is not None and hardware.kind == "cuda" and median_ms < LAUNCH_BOUND_MS:
        bound = "launch"
    faster = {name: 1 / times for name, times in measured.speedups.items() if times > 0}
    if saved is not None and saved.speedup is not None and measured.speedup > 0:
        faster[f"a saved {saved.backend} kernel"] = saved.speedup / measured.speedup
    ahead = max(faster, key=lambda name: faster[name], default="")
    is_behind = bool(ahead) and faster[ahead] > 1
    return Speed(
        bound=bound,
        roofline_ms=roofline_ms,
        fraction=fraction,
        ahead=ahead if is_behind else "",
        ahead_by=faster[ahead] if is_behind else 1.0,
    )


def _measured_roofline(evaluation: Evaluation, hardware: Hardware | None) -> tuple[Bound, float | None]:
    work = evaluation.plausibility
    if work is None:
        return "", None
    bandwidth = work.gigabytes_per_s or (hardware.bandwidth_gb_s if hardware else None)
    peak = work.teraflops or (hardware.peak_tflops(evaluation.config.math) if hardware else None)
    return roofline(work.bytes_moved, work.flops, bandwidth_gb_s=bandwidth, peak_tflops=peak)


def roofline(
    bytes_moved: int | None, flops: int | None, *, bandwidth_gb_s: float | None, peak_tflops: float | None
) -> tuple[Bound, float | None]:
    """The bound of so much work and its least milliseconds; nothing where a rate that matters is unknown."""
    if bytes_moved is None or not bandwidth_gb_s or (flops and not peak_tflops):
        return "", None
    memory_ms = bytes_moved / bandwidth_gb_s / 1e6
    arithmetic_ms = flops / peak_tflops / 1e9 if flops and peak_tflops else 0.0
    return ("arithmetic", arithmetic_ms) if arithmetic_ms > memory_ms else ("memory", memory_ms)


def compiled_kernels(evaluation: Evaluation) -> list[KernelResources]:
    """The kernels of all builds that take the most registers."""
    kernels = [kernel for build in evaluation.builds for kernel in build.resources]
    return sorted(kernels, key=lambda kernel: (-kernel.registers, kernel.kernel))[:KERNELS]


def plain_name(mangled: str) -> str:
    """Demangle a name, without namespaces, arguments and template arguments."""
    place, found = re.match(r"_ZN?", mangled), mangled
    at = place.end() if place else len(mangled)
    while length := _LENGTH.match(mangled, at):
        at = length.end() + int(length[0])
        found = mangled[length.end() : at]
    return shortened(found, 80)


def diagnosis_of(evaluation: Evaluation, code: str) -> Diagnosis | None:
    """Find the error in what a failed build or call said; `code` is the candidate's source."""
    failed = next((build for build in evaluation.builds if not build.ok), None)
    if evaluation.status is Status.COMPILE_ERROR and failed is not None:
        found = read_compiler_log(failed.log, code)
        return found or Diagnosis(message=tail(failed.log, lines=12, characters=1200) or "no message")
    detail, traceback, tries = evaluation.detail, evaluation.traceback, []
    if evaluation.status is Status.COMPILE_ERROR:
        readers = (read_kernel_error, read_compiler_log)
        tries += [(read, text) for read in readers for text in (detail, traceback)]
    if evaluation.status in (Status.RUNTIME_ERROR, Status.COMPILE_ERROR):
        tries += [(read_traceback, text) for text in (traceback, evaluation.output_tail, detail)]
    return next((found for read, text in tries if (found := read(text, code))), None)
