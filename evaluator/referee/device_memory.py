"""The one policy for a full device: a shortage is a candidate's only where nobody else could have caused it.

Everything else raises `DeviceFull`, and the driver tries again once others have made room (evaluator.py).
"""

from __future__ import annotations

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.referee.policy import CALL_COPIES, ENOUGH_FREE
from kernelwright.evaluator.referee.reference.flop_counter import OpCounts
from kernelwright.evaluator.schema.errors import DeviceFull


def shortage(work: OpCounts, free_bytes: int) -> str:
    """Explain why a problem does not fit into so much memory; empty where it does."""
    if CALL_COPIES * work.peak_bytes <= free_bytes:
        return ""
    return (
        f"a call holds {_gib(work.peak_bytes)}, judging one {CALL_COPIES} times that; "
        f"{_gib(free_bytes)} are free on this device"
    )


def require_shortage_is_own(device: Device, why: str, *, others_evicted: bool) -> None:
    """Raise unless a candidate, which has ended, ran out of device memory by itself.

    Beside others it cannot be told: whatever fills a device fails, and gives back, when those it starved do.

    Raises:
        DeviceFull: others hold most of the device, or may have, unless `others_evicted` made room.
    """
    if device.torch_device.type == "cpu":
        return
    device.trim()
    if not others_evicted or device.free_bytes() < ENOUGH_FREE * device.total_bytes():
        raise DeviceFull(f"other processes hold most of the device's memory: {why[:300]}")


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
