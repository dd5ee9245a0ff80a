"""Times against what the hardware allows: a floor that convicts, a roofline that only marks. Pure functions.

The floor counts what certainly crosses the memory bus: bytes of inputs the answer depends on and bytes of
outputs computed, less twice the last-level cache (what a call may find there, and what it may leave there
unwritten). Weights are not in it: an honest kernel may fold them beforehand.
"""

from __future__ import annotations

from typing import Final

from kernelwright.evaluator.schema.evaluation import Plausibility

SAFETY: Final = 0.8
"""Share of the time at the measured copy rate that is still believed: reading is faster than copying."""


def floor_ms(certain_bytes: int, *, cache_bytes: int, bytes_per_ms: float) -> float | None:
    """The least time a call can take; None where everything could come from the cache.

    `bytes_per_ms` is this device's measured copy rate, reads and writes together.
    """
    beyond = certain_bytes - 2 * cache_bytes
    return SAFETY * beyond / bytes_per_ms if beyond > 0 else None


def roofline_ms(moved_bytes: int, flops: int, *, bytes_per_ms: float, flops_per_ms: float) -> float:
    """Time at the device's best, memory and arithmetic perfectly overlapped.

    Source: Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009.
    """
    return max(moved_bytes / bytes_per_ms, flops / flops_per_ms)


def speed_of_light(limit_ms: float, measured_ms: float) -> float | None:
    """Fraction of the roofline reached; None for a time of nothing."""
    return limit_ms / measured_ms if measured_ms > 0 else None


def contradiction(plausibility: Plausibility, measured_ms: float) -> str:
    """Why a measured time cannot be true; empty when it can."""
    if plausibility.floor_ms is None or measured_ms >= plausibility.floor_ms:
        return ""
    return (
        f"{measured_ms:.4g} ms a call is less than the {plausibility.floor_ms:.4g} ms that this device's "
        "memory needs for inputs and outputs alone"
    )
