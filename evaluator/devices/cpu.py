"""The CPU: sealed anonymous files as shared memory, the monotonic clock as stopwatch."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch

from kernelwright.evaluator.devices import policy
from kernelwright.evaluator.devices.guarded_block import Edge, GuardedBlock

_NO_ACCESS: Final = 0
_MAP_FAILED: Final = ctypes.c_void_p(-1).value


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    return library


def competing_threads() -> int:
    """Count threads of others that want a core and find none beside ours; 0 where the system does not say.

    To be called while every contestant is frozen: of all threads that are ready to run, one is the caller's.
    """
    try:
        running = int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0
    spare = len(os.sched_getaffinity(0)) - torch.get_num_threads()
    return max(0, running - 1 - max(0, spare))


def sealed_file(size: int) -> int:
    """Make a zeroed file in memory that keeps its size; returns its descriptor."""
    fd = os.memfd_create("tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


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
        return cls(sealed_file(size), size)

    def part(self, begin: int, size: int) -> torch.Tensor:
        return torch.frombuffer(self._map, dtype=torch.uint8, count=size, offset=begin)

    def descriptor(self) -> dict[str, Any]:
        """Size; the memory itself travels as a file descriptor."""
        return {"kind": "memfd", "size": self._size}

    def fds(self) -> tuple[int, ...]:
        return (self._fd,)

    def close(self) -> None:
        """Close the descriptor; the mapping goes with the last view."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self.data = self.data.new_empty(0)


class HostPages:
    """Readable and writable pages in the middle of address space that is not."""

    alignment = policy.GUARD_ALIGNMENT["cpu"]

    def __init__(self, size: int) -> None:
        """Map pages for `size` bytes; raises OSError where there is no memory or address space."""
        self.size = -(-(size + policy.GUARD_SLACK) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._reserved = ctypes.c_size_t(self.size + 2 * policy.GUARD_BYTES)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._base = _libc().mmap(None, self._reserved, _NO_ACCESS, flags, -1, 0)
        if self._base in (None, _MAP_FAILED):
            raise OSError(ctypes.get_errno(), "no address space")
        self._address = self._base + policy.GUARD_BYTES
        access = mmap.PROT_READ | mmap.PROT_WRITE
        if _libc().mprotect(ctypes.c_void_p(self._address), ctypes.c_size_t(self.size), access):
            self.unmap()
            raise OSError(ctypes.get_errno(), f"no {self.size} bytes")

    def part(self, begin: int, size: int) -> tuple[object, torch.Tensor]:
        owner = (ctypes.c_char * size).from_address(self._address + begin)
        return owner, torch.frombuffer(owner, dtype=torch.uint8) if size else torch.empty(0)

    def unmap(self) -> None:
        _libc().munmap(ctypes.c_void_p(self._base), self._reserved)


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


class CpuWatch:
    """Sees nothing: a frozen process has no processor."""

    def start(self) -> None:
        """Nothing to begin, or to wait for."""

    wait = start

    def stop(self) -> float:
        return 0.0


class CpuDevice:
    """Host memory and host clock."""

    torch_device = torch.device("cpu")

    def __init__(self) -> None:
        self._flush: torch.Tensor | None = None

    def allocate(self, size: int, wait_s: float = policy.MEMORY_WAIT_S) -> CpuBlock:
        return CpuBlock.create(size)

    def allocate_word(self) -> CpuBlock:
        return CpuBlock.create(1)

    def attach(self, descriptor: dict[str, Any], fds: list[int]) -> CpuBlock:
        return CpuBlock(fds[0], int(descriptor["size"]))

    def guarded(self, size: int, edge: Edge) -> GuardedBlock | None:
        try:
            return GuardedBlock.cut(HostPages(size), size, edge)
        except OSError:
            return None

    def synchronize(self) -> None:
        """Nothing is asynchronous on the CPU, nor is any memory on a chip."""

    finish = stain = synchronize

    def trim(self, *, above: int = 0) -> None:
        """No memory is kept."""

    def write_noise(self, places: list[tuple[int, int]]) -> None:
        """Nothing is queued on a CPU."""

    def disturb(self, kind: int) -> None:
        """Threads are disturbed by their number instead."""

    def waits_for(self, word: torch.Tensor, value: int) -> bool:
        """Wait here, as nothing is queued on the CPU; without sleep, so that the process stays warm."""
        released = ctypes.c_int32.from_address(word.data_ptr())
        while released.value < value:
            pass
        return True

    def timer(self) -> CpuStopwatch:
        return CpuStopwatch()

    def watch(self) -> CpuWatch:
        return CpuWatch()

    def free_bytes(self) -> int:
        return _memory("MemAvailable")

    def total_bytes(self) -> int:
        return _memory("MemTotal")

    def flush_cache(self) -> None:
        """Walk over more memory than the last-level cache holds."""
        if self._flush is None:
            self._flush = torch.zeros(policy.FLUSH_BYTES, dtype=torch.uint8)
        self._flush.add_(1)


def _memory(name: str) -> int:
    """Physical memory of the host in bytes, as it says."""
    with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123  (hot path, no Path needed)
        for line in lines:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 1 << 30
