"""Sets the number of threads of torch and of every OpenMP runtime that is loaded."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import torch

_RUNTIMES = re.compile(r"/lib(?:gomp|omp|iomp5)[^/]*\.so[^/]*$")


def set_threads(count: int) -> None:
    """Use `count` threads from here on; an extension may have brought a runtime beside torch's."""
    torch.set_num_threads(count)
    for path in _loaded_runtimes():
        ctypes.CDLL(path).omp_set_num_threads(count)


def _loaded_runtimes() -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {
        path for line in lines if _RUNTIMES.search(path := line.partition("/")[1] + line.partition("/")[2])
    }
