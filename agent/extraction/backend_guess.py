"""Which backend a source is written for, by the words only that backend's users write."""

from __future__ import annotations

import re
from typing import Final

_SIGNS: Final = (
    ("tilelang", re.compile(r"^[ \t]*(?:import|from)\s+tilelang\b", re.MULTILINE)),
    ("cute", re.compile(r"^[ \t]*(?:import|from)\s+cutlass\b", re.MULTILINE)),
    ("triton", re.compile(r"^[ \t]*(?:import|from)\s+triton\b", re.MULTILINE)),
    ("cuda", re.compile(r"\bcuda_sources\b|__global__\b|\bCUDAExtension\b|['\"][\w./-]+\.cu['\"]")),
    ("cpp", re.compile(r"\bcpp_sources\b|['\"][\w./-]+\.(?:cpp|cc)['\"]")),
)
"""Most telling first: a Triton module may well mention CUDA."""


def guess_backend(source: str) -> str | None:
    """The backend whose words a source uses; None for plain PyTorch."""
    return next((name for name, sign in _SIGNS if sign.search(source)), None)
