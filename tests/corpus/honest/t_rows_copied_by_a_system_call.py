# status: PASSED
# class: T3 T7
# problem: ../tests/problems/answers/rows_reversed
# shapes: small
# backend: cpp
"""A thread copies half of the rows out of the inputs' file in one system call, and is waited for."""
import ctypes
import os
import re
import threading

import torch
from torch import nn


def file_of(address):
    """A file to read an address's memory from, and the place in it."""
    for line in open("/proc/self/maps"):
        found = re.match(r"(\w+)-(\w+) \S+ (\w+) \S+ (\d+) +/memfd", line)
        if found and int(found[1], 16) <= address < int(found[2], 16):
            for fd in map(int, os.listdir("/proc/self/fd")):
                try:
                    if os.fstat(fd).st_ino == int(found[4]):
                        return fd, address - int(found[1], 16) + int(found[3], 16)
                except OSError:
                    pass
    return None


class ModelNew(nn.Module):
    def forward(self, x):
        half, file = len(x) // 2, file_of(x.data_ptr())
        if file is None or half > 1024 or not x.is_contiguous():
            return x.flip(0)
        out = torch.empty_like(x)
        size = out[0].numel() * out.element_size()
        last = out.data_ptr() + (len(x) - 1) * size
        rows = [(ctypes.c_char * size).from_address(last - row * size) for row in range(half)]
        reader = threading.Thread(target=os.preadv, args=(file[0], rows, file[1]))
        reader.start()
        torch.index_select(x, 0, torch.arange(len(x) - 1, half - 1, -1), out=out[: len(x) - half])
        reader.join()
        return out
