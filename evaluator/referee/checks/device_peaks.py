"""The device's peak rates, measured and remembered: copying and multiplying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.referee.checks.policy import (
    COPY_BYTES,
    COPY_MEMORY_SHARE,
    HOPELESS_MS,
    MATRIX_SIZE,
    MEASUREMENTS,
    REPEATS,
    UNKNOWN_CACHE_BYTES,
    WARM_UPS,
)
from kernelwright.evaluator.referee.worker.driver_link import DriverLink

_CPU_CACHE: Final = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class DevicePeaks:
    """One device's best, for one kind of number."""

    bytes_per_ms: float
    """The best of a large copy, read plus written, and of a large sum, which only reads."""
    flops_per_ms: float
    """Rate of a large matrix product, a multiply-add counted as two."""
    cache_bytes: int
    """Size of the last-level cache."""


def measure_peaks(device: Device, driver: DriverLink, *, math: str, dtype: torch.dtype) -> DevicePeaks:
    """Measure rates of this device under a math policy, or recall what was measured earlier.

    Only to be called while nothing foreign runs on the device: a rate measured too low would refuse honest
    times, and is remembered.
    """
    kind = device.torch_device
    name = torch.cuda.get_device_name(kind) if kind.type == "cuda" else "cpu"
    about = f"rates:2:{name}:{torch.__version__}:{math}:{dtype}"
    stored = driver.recall(about)
    known, times = _read(stored), int(stored.get("times") or 0)
    if known is not None and times >= MEASUREMENTS:
        return known
    found = DevicePeaks(_memory_rate(device), _product_rate(device, dtype), cache_bytes(kind))
    if known is not None:
        found = DevicePeaks(
            max(known.bytes_per_ms, found.bytes_per_ms),
            max(known.flops_per_ms, found.flops_per_ms),
            found.cache_bytes,
        )
    driver.remember(
        {
            "bytes_per_ms": found.bytes_per_ms,
            "flops_per_ms": found.flops_per_ms,
            "cache_bytes": found.cache_bytes,
            "times": times + 1,
        },
        about,
    )
    return found


# Any: what the memory holds, checked here.
def _read(stored: dict[str, Any]) -> DevicePeaks | None:
    values = [stored.get(name) for name in ("bytes_per_ms", "flops_per_ms", "cache_bytes")]
    if not all(isinstance(value, (int, float)) and value > 0 for value in values):
        return None
    copying, multiplying, cache = (float(value or 0) for value in values)
    return DevicePeaks(copying, multiplying, int(cache))


def _memory_rate(device: Device) -> float:
    kind = device.torch_device.type
    size = min(COPY_BYTES[kind], int(device.free_bytes() * COPY_MEMORY_SHARE))
    source = torch.zeros(size // 4, dtype=torch.float32, device=device.torch_device)
    target = torch.ones_like(source)
    moved = 2 * source.nbytes / _best_ms(device, lambda: target.copy_(source))
    return max(moved, source.nbytes / _best_ms(device, source.sum))


def _product_rate(device: Device, dtype: torch.dtype) -> float:
    kind = device.torch_device.type
    size = MATRIX_SIZE[kind]
    left = torch.rand(size, size, device=device.torch_device).to(dtype)
    right = left.flip(0).contiguous()
    return 2 * size**3 / _best_ms(device, lambda: torch.mm(left, right))


def _best_ms(device: Device, action: Callable[[], object]) -> float:
    times = []
    for turn in range(REPEATS[device.torch_device.type] + WARM_UPS):
        timer = device.timer()
        device.synchronize()
        timer.start()
        action()
        timer.stop()
        device.synchronize()
        if turn >= WARM_UPS:
            times.append(timer.elapsed_ms())
        elif timer.elapsed_ms() > HOPELESS_MS:
            return timer.elapsed_ms()
    return max(min(times), 1e-6)


def cache_bytes(device: torch.device) -> int:
    """Size of a device's last-level cache."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = [_kibibytes(path) << 10 for path in _CPU_CACHE.glob("index*/size")]
    return max(sizes, default=UNKNOWN_CACHE_BYTES)


def _kibibytes(path: Path) -> int:
    text = path.read_text("ascii").strip()
    return int(text[:-1]) << (10 if text.endswith("M") else 0)
