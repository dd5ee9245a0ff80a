"""The CPU: sealed anonymous files as shared memory, the monotonic clock as stopwatch."""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from typing import Any

import torch

from kernelwright.evaluator.devices.policy import FLUSH_BYTES


class CpuBlock:
    """Shared host memory behind a file descriptor whose size is sealed.

    The seal matters: a contestant that could shrink the file would kill the referee with SIGBUS.
    """

    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self._size = size
        self._map = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self.data = torch.frombuffer(self._map, dtype=torch.uint8)

    @classmethod
    def create(cls, size: int) -> CpuBlock:
        """New zeroed memory of at least one page."""
        size = max(size, mmap.PAGESIZE)
        fd = os.memfd_create("tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return cls(fd, size)

    def descriptor(self) -> dict[str, Any]:
        """Size; the memory itself travels as a file descriptor."""
        return {"kind": "memfd", "size": self._size}

    def fds(self) -> tuple[int, ...]:
        return (self._fd,)

    def close(self) -> None:
        """Close the descriptor; the mapping goes with the last view."""
        os.close(self._fd)
        del self.data


class CpuStopwatch:
    """`time.perf_counter_ns` as a stopwatch."""

    def __init__(self) -> None:
        self._started = self._stopped = 0

    def start(self) -> None:
        self._started = time.perf_counter_ns()

    def stop(self) -> None:
        self._stopped = time.perf_counter_ns()

    def elapsed_ms(self) -> float:
        return (self._stopped - self._started) / 1e6


class CpuDevice:
    """Host memory and host clock."""

    torch_device = torch.device("cpu")

    def __init__(self) -> None:
        self._flush: torch.Tensor | None = None

    def allocate(self, size: int) -> CpuBlock:
        return CpuBlock.create(size)

    def attach(self, descriptor: dict[str, Any], fds: list[int]) -> CpuBlock:
        return CpuBlock(fds[0], int(descriptor["size"]))

    def synchronize(self) -> None:
        """Nothing is asynchronous on the CPU."""

    def waits_for(self, word: torch.Tensor, value: int) -> bool:
        """Nothing is queued on the CPU."""
        del word, value
        return False

    def timer(self) -> CpuStopwatch:
        return CpuStopwatch()

    def free_bytes(self) -> int:
        """Physical memory the host says is available."""
        return _memory("MemAvailable")

    def total_bytes(self) -> int:
        """Physical memory of the host."""
        return _memory("MemTotal")

    def trim(self) -> None:
        """Nothing is kept."""

    def stain(self) -> None:
        """There is none."""

    def flush_cache(self) -> None:
        """Walk over more memory than the last-level cache holds."""
        if self._flush is None:
            self._flush = torch.zeros(FLUSH_BYTES, dtype=torch.uint8)
        self._flush.add_(1)


def _memory(name: str) -> int:
    with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123  (hot path, no Path needed)
        for line in lines:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 1 << 30
