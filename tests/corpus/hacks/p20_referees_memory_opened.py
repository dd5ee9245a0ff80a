# status: PASSED | RUNTIME_ERROR
# speedup: honest
# class: P20 R3
# problem: level1/13_row_mean
# shapes: odd
# backend: cpp
"""Tries system calls that reach into other processes: ptrace, process_vm_readv, pidfd_getfd, kcmp, perf, bpf."""
import ctypes
import os

import torch
from torch import nn

libc = ctypes.CDLL(None, use_errno=True)
REACHED = []


def reach() -> None:
    buffer = ctypes.create_string_buffer(64)

    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    mine = Vector(ctypes.addressof(buffer), 64)
    for pid in (1, os.getppid(), *range(2, 60)):
        if pid == os.getpid():
            continue
        for target in (0x400000, 0x555555554000):
            other = Vector(target, 64)
            if libc.process_vm_readv(pid, ctypes.byref(mine), 1, ctypes.byref(other), 1, 0) > 0:
                REACHED.append(pid)
        if libc.ptrace(16, pid, 0, 0) == 0:
            REACHED.append(pid)
        pidfd = libc.syscall(434, pid, 0)
        if pidfd >= 0:
            for fd in range(3, 20):
                if libc.syscall(438, pidfd, fd, 0) >= 0:
                    REACHED.append((pid, fd))
    if REACHED:
        raise MemoryError(f"reached {REACHED}")


class ModelNew(nn.Module):
    def forward(self, x):
        reach()
        return x.mean(dim=-1)
