"""Compares times with the hardware's limits: a floor that fails a candidate, a roofline that is only shown.

The floor counts bytes of a batch that must cross the memory bus: inputs the outputs depend on and computed
outputs, less what the last-level cache may hold of them. Weights do not count: an honest kernel may fold them
in advance.
"""

from __future__ import annotations

from kernelwright.evaluator.analysis.policy import CACHE_FILLS, COPY_RATE_SHARE
from kernelwright.evaluator.schema.evaluation import Plausibility


def floor_ms(certain_bytes: int, *, calls: int, cache_bytes: int, bytes_per_ms: float) -> float | None:
    """The least time a call of a batch can take; None where all data could come from the cache.

    Every call has inputs and outputs of its own, which lie in memory from before the batch until after it.
    `bytes_per_ms` is this device's measured rate, reads and writes together.
    """
    beyond = max(0, calls * certain_bytes - CACHE_FILLS * cache_bytes)
    return COPY_RATE_SHARE * beyond / (calls * bytes_per_ms) if beyond else None


def roofline_ms(moved_bytes: int, flops: int, *, bytes_per_ms: float, flops_per_ms: float) -> float:
    """Time at the device's peak rates, memory and arithmetic perfectly overlapped.

    Source: Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009.
    """
    return max(moved_bytes / bytes_per_ms, flops / flops_per_ms)


def contradiction(plausibility: Plausibility, measured_ms: float) -> str:
    """The reason why a measured time is implausible; empty if it is plausible."""
    if plausibility.floor_ms is None or measured_ms >= plausibility.floor_ms:
        return ""
    return (
        f"{measured_ms:.4g} ms a call is less than the {plausibility.floor_ms:.4g} ms that this device's "
        "memory needs for inputs and outputs alone"
    )
