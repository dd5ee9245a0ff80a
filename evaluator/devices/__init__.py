"""Device memory that two processes share: one module per kind of device.

Both sides import this package; the referee allocates, the contestant attaches.
"""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

import torch

from kernelwright.evaluator.devices.guarded_block import Edge, GuardedBlock
from kernelwright.evaluator.devices.policy import MEMORY_WAIT_S

_SHORTAGES: Final = re.compile(
    r"NVML_SUCCESS ==|CUDA error: out of memory|\b[A-Z_]+_ALLOC(?:ATION)?_FAILED\b"
)
"""In torch's errors where its allocator found the device full and can't say who fills it, and where another
part of CUDA, or a library's handle or plan, found no memory: `CUBLAS_STATUS_ALLOC_FAILED`."""


def is_device_full(error: BaseException) -> bool:
    """Return whether a device's memory ran out; where a sandbox closes NVML, torch fails to report it."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and _SHORTAGES.search(str(error)) is not None


class Block(Protocol):
    """A span of memory that two processes see."""

    @property
    def data(self) -> torch.Tensor:
        """The whole span, uint8, where it lies."""

    def part(self, begin: int, size: int) -> torch.Tensor:
        """Some of its bytes as a tensor with a storage of its own."""

    def descriptor(self) -> dict[str, Any]:
        """The facts that the other side needs to attach, as JSON."""

    def fds(self) -> tuple[int, ...]:
        """Descriptors that must travel with it."""

    def close(self) -> None:
        """Give the memory back; every view of it must be gone. Once closed, there is nothing to do."""


class Device(Protocol):
    """One device, from one process."""

    @property
    def torch_device(self) -> torch.device:
        """The `torch.device` of its tensors."""

    def allocate(self, size: int, wait_s: float = MEMORY_WAIT_S) -> Block:
        """New memory to share, `size` bytes, zeroed; raises torch.OutOfMemoryError after `wait_s`."""

    def allocate_word(self) -> Block:
        """New memory to share, a word at least, for streams to wait for: the host's, where they can."""

    def attach(self, descriptor: dict[str, Any], fds: list[int]) -> Block:
        """Memory the other side allocated."""

    def guarded(self, size: int, edge: Edge) -> GuardedBlock | None:
        """Memory of this process's own between guard pages; None where there is none to be had."""

    def synchronize(self) -> None:
        """Wait for everything this process queued on the device, on every stream."""

    def finish(self) -> None:
        """Wait for what this process queued on its current stream."""

    def waits_for(self, word: torch.Tensor, value: int) -> bool:
        """Let what is queued from now on wait until a word of memory is at least `value`, if this can."""

    def write_noise(self, places: list[tuple[int, int]]) -> None:
        """Write noise to addresses, so many bytes each, beside what is queued; wait until it is there.

        On a GPU the first time takes memory of the host's, which waits for what is queued: begin with no
        addresses.
        """

    def timer(self) -> Stopwatch:
        """A fresh stopwatch."""

    def free_bytes(self) -> int:
        """Memory that this process may still take."""

    def total_bytes(self) -> int:
        """All of its memory."""

    def trim(self, *, above: int = 0) -> None:
        """Give back what this process keeps for allocations to come, where it is more than so many bytes."""

    def flush_cache(self) -> None:
        """Push inputs out of the last-level cache."""

    def watch(self) -> Watch:
        """This process's watch."""

    def stain(self) -> None:
        """Leave NaN in on-chip memory, where kernels that use it before they write to it will find them."""

    def disturb(self, kind: int) -> None:
        """Keep some multiprocessors busy for a moment, so that blocks start in another order than usual."""


class Stopwatch(Protocol):
    """A stopwatch on the device's own time line."""

    def start(self) -> None:
        """Mark the beginning."""

    def stop(self) -> None:
        """Mark the end."""

    def elapsed_ms(self) -> float:
        """Milliseconds between the marks; waits for the end mark."""


class Watch(Protocol):
    """Measures how long other processes had the device while this one wanted it."""

    def start(self) -> None:
        """Begin to look, as soon as the device lets this process."""

    def wait(self) -> None:
        """Wait until it looks: from then on it sees all of others' work."""

    def stop(self) -> float:
        """End it; return milliseconds."""


def open_device(name: str) -> Device:
    """The device called `cpu`, `cuda` or `cuda:N`, ready to use in this process."""
    if name == "cpu":
        from kernelwright.evaluator.devices.cpu import CpuDevice

        return CpuDevice()
    from kernelwright.evaluator.devices.cuda import CudaDevice

    return CudaDevice(name)
