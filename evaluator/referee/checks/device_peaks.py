"""The device's peak rates, measured and remembered: copying and multiplying."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from pydantic import Field, ValidationError

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.ipc.model_init import apply_math
from kernelwright.evaluator.referee.checks import policy
from kernelwright.evaluator.referee.reference.latency import timed_ms
from kernelwright.evaluator.referee.worker.driver_link import DriverLink
from kernelwright.evaluator.schema.record import Record

_CPU_CACHE: Final = Path("/sys/devices/system/cpu/cpu0/cache")


class DevicePeaks(Record):
    """One device's best, for one kind of number."""

    bytes_per_ms: float = Field(gt=0)
    """The best of a large copy, read plus written, and of a large sum, which only reads."""
    flops_per_ms: float = Field(gt=0)
    """Rate of a large matrix product, a multiply-add counted as two."""
    cache_bytes: int
    """Size of the last-level cache."""
    times: int = 0
    """Measurements, by different processes, that these are the best of."""


def measure_peaks(device: Device, driver: DriverLink, *, math: str, dtype: torch.dtype) -> DevicePeaks:
    """Measure rates of this device under a math policy, or recall what was measured earlier.

    Only to be called while nothing foreign runs on the device: a rate measured too low would refuse honest
    times, and is remembered.
    """
    kind = device.torch_device
    name = torch.cuda.get_device_name(kind) if kind.type == "cuda" else "cpu"
    about = f"rates:3:{name}:{torch.__version__}:{math}:{dtype}"
    known = _recall(driver, about)
    if known is not None and known.times >= policy.MEASUREMENTS:
        return known
    copying, multiplying = _memory_rate(device), _exact_product_rate(device, math, dtype)
    found = DevicePeaks(
        bytes_per_ms=max(copying, known.bytes_per_ms) if known is not None else copying,
        flops_per_ms=max(multiplying, known.flops_per_ms) if known is not None else multiplying,
        cache_bytes=cache_bytes(kind),
        times=known.times + 1 if known is not None else 1,
    )
    driver.remember(found.model_dump(), about)
    return found


def _recall(driver: DriverLink, about: str) -> DevicePeaks | None:
    """The peaks that are remembered; None where there are none, or not in this form."""
    try:
        return DevicePeaks.model_validate(driver.recall(about), strict=True)
    except ValidationError:
        return None


def _memory_rate(device: Device) -> float:
    kind = device.torch_device.type
    size = min(policy.COPY_BYTES[kind], int(device.free_bytes() * policy.COPY_MEMORY_SHARE))
    source = torch.zeros(size // 4, dtype=torch.float32, device=device.torch_device)
    target = torch.ones_like(source)
    moved = 2 * source.nbytes / _best_ms(device, lambda: target.copy_(source))
    return max(moved, source.nbytes / _best_ms(device, source.sum))


def _exact_product_rate(device: Device, math: str, dtype: torch.dtype) -> float:
    """The best rate at a policy's precision: three TF32 products are as exact as a float32 one."""
    rate = _product_rate(device, dtype)
    if math == "fp32" and dtype is torch.float32 and device.torch_device.type == "cuda":
        apply_math("tf32")
        try:
            rate = max(rate, _product_rate(device, dtype) / policy.PRODUCTS_OF_SPLIT_OPERANDS)
        finally:
            apply_math(math)
    return rate


def _product_rate(device: Device, dtype: torch.dtype) -> float:
    kind = device.torch_device.type
    size = policy.MATRIX_SIZE[kind]
    left = torch.rand(size, size, device=device.torch_device).to(dtype)
    right = left.flip(0).contiguous()
    return 2 * size**3 / _best_ms(device, lambda: torch.mm(left, right))


def _best_ms(device: Device, action: Callable[[], object]) -> float:
    times = []
    for turn in range(policy.REPEATS[device.torch_device.type] + policy.WARM_UPS):
        took_ms = timed_ms(device, action)
        if turn >= policy.WARM_UPS:
            times.append(took_ms)
        elif took_ms > policy.HOPELESS_MS:
            return took_ms
    return max(min(times), 1e-6)


def cache_bytes(device: torch.device) -> int:
    """Size of a device's last-level cache."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = [_kibibytes(path) << 10 for path in _CPU_CACHE.glob("index*/size")]
    return max(sizes, default=policy.UNKNOWN_CACHE_BYTES)


def _kibibytes(path: Path) -> int:
    text = path.read_text("ascii").strip()
    return int(text[:-1]) << (10 if text.endswith("M") else 0)
