"""Shared host memory that a GPU reads, and that the host writes without the GPU.

A stream's wait for a word of device memory ends at once only where no other stream waits, too. If streams of
its process wait for each other, a GPU looks at the word again a time slice of 1 to 2 ms later; at a word of
host memory it looks at once (H100, driver 580: `tests/benchmarks/release_latency.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from kernelwright.evaluator.devices.cpu import CpuBlock

RuntimeCall = Callable[..., None]
"""Calls a function of the CUDA runtime by its name; raises RuntimeError where it fails."""


class PinnedBlock(CpuBlock):
    """Shared host memory that is registered with CUDA in this process."""

    def __init__(self, fd: int, size: int, call: RuntimeCall) -> None:
        """Map and register it; raises RuntimeError where CUDA refuses, or sees it at another address."""
        super().__init__(fd, size)
        self._call, self._registered = call, False
        address, seen = ctypes.c_void_p(self.data.data_ptr()), ctypes.c_void_p()
        try:
            call("cudaHostRegister", address, ctypes.c_size_t(size), ctypes.c_uint(0))
            self._registered = True
            call("cudaHostGetDevicePointer", ctypes.byref(seen), address, ctypes.c_uint(0))
            if seen.value != address.value:
                raise RuntimeError("CUDA sees this host memory at another address")
        except RuntimeError:
            self.close()
            raise

    def close(self) -> None:
        """Unregister the memory, then close it; nothing to do if closed."""
        if self._registered:
            self._registered = False
            self._call("cudaHostUnregister", ctypes.c_void_p(self.data.data_ptr()))
        super().close()
