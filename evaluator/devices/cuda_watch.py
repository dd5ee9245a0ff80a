"""A kernel of one thread that sees when a GPU is taken from its process.

Processes have a GPU by turns. A thread that reads the clock without end finds a gap wherever another process
ran; work that waits in another's queue takes no turn.
"""

from __future__ import annotations

import ctypes
import time
from typing import Final

import torch

from kernelwright.evaluator.devices.policy import SHORTEST_GAP_NS, WATCH_LIMIT_NS, WATCH_WAIT_S

_PTX: Final = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry watch(
  .param .u64 begun, .param .u64 stop, .param .u64 found, .param .u64 gap, .param .u64 limit)
{
  .reg .u64 %a<10>;
  .reg .u32 %word;
  .reg .pred %is;
  mov.u32 %word, 1;
  ld.param.u64 %a1, [begun];
  st.volatile.global.u32 [%a1], %word;
  membar.sys;
  ld.param.u64 %a1, [stop];
  ld.param.u64 %a2, [found];
  ld.param.u64 %a3, [gap];
  ld.param.u64 %a4, [limit];
  mov.u64 %a5, %globaltimer;
  mov.u64 %a6, %a5;
  mov.u64 %a7, 0;
again:
  mov.u64 %a8, %globaltimer;
  sub.u64 %a9, %a8, %a6;
  mov.u64 %a6, %a8;
  setp.gt.u64 %is, %a9, %a3;
  @%is add.u64 %a7, %a7, %a9;
  sub.u64 %a9, %a8, %a5;
  setp.gt.u64 %is, %a9, %a4;
  @%is bra done;
  ld.volatile.global.u32 %word, [%a1];
  setp.eq.u32 %is, %word, 0;
  @%is bra again;
done:
  st.global.u64 [%a2], %a7;
  ret;
}
\0"""
"""Adds up gaps between readings of the clock until a word of memory is set, or a limit is reached."""


class CudaWatch:
    """Runs that kernel on a stream of its own; meanwhile this process must not wait for the whole device."""

    def __init__(self, driver: ctypes.CDLL, device: torch.device) -> None:
        """Compile the kernel for this device; raises RuntimeError where the driver refuses it."""
        self._driver = driver
        module, self._kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(driver.cuModuleLoadData(ctypes.byref(module), _PTX))
        self._check(driver.cuModuleGetFunction(ctypes.byref(self._kernel), module, b"watch"))
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's
        self._found = torch.zeros(1, dtype=torch.int64).pin_memory()
        self._stop = torch.zeros(1, dtype=torch.int32).pin_memory()
        self._begun = torch.ones(1, dtype=torch.int32).pin_memory()

    def start(self) -> None:
        """Launch it, once an earlier one has ended that nobody stopped."""
        self.stop()
        self._stop.zero_()
        self._begun.zero_()
        places = (word.data_ptr() for word in (self._begun, self._stop, self._found))
        words = (*places, SHORTEST_GAP_NS, WATCH_LIMIT_NS)
        values = [ctypes.c_uint64(word) for word in words]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        stream = ctypes.c_void_p(self._stream.cuda_stream)
        self._check(self._driver.cuLaunchKernel(self._kernel, 1, 1, 1, 1, 1, 1, 0, stream, pointers, None))

    def wait(self) -> None:
        """Wait until it runs, for a while at most: a GPU works for another process until its turn ends."""
        word = ctypes.c_int32.from_address(self._begun.data_ptr())
        until = time.monotonic() + WATCH_WAIT_S
        while not word.value and time.monotonic() < until:
            pass

    def stop(self) -> float:
        """End it; return the milliseconds of all gaps."""
        self._stop.fill_(1)
        self._stream.synchronize()
        return int(self._found) / 1e6

    def _check(self, code: int) -> None:
        if code != 0:
            raise RuntimeError(f"the device cannot be watched: CUDA driver error {code}")
