"""Limits of reading hostile files and logs, and the shares that decide an attribution."""

from __future__ import annotations

from typing import Final

OWN_SHARE: Final = 0.95
"""Share of a call's time in own kernels from which its track is `own`."""
MIXED_SHARE: Final = 0.05
"""Share above which its track is `mixed`; up to it `library`."""
SHOWN_KERNELS: Final = 8
"""Kernels an attribution lists, the longest first."""
DECLARATION_CHARACTERS: Final = 400
"""Characters of a CUDA kernel's declaration that are searched for its name."""

CACHE_FILLS: Final = 2
"""Times the last-level cache whose bytes need not cross the memory bus: data that a call may find there, and
data that it may leave there unwritten."""
COPY_RATE_SHARE: Final = 0.8
"""Share of the time at the measured copy rate below which a call is implausible: reading beats copying."""

MAX_SOURCE_BYTES: Final = 8 << 20
"""Largest source of a candidate."""
MAX_SOURCE_JSON_BYTES: Final = 24 << 20
"""The same as JSON, where a non-ASCII character takes six bytes or more: it must fit one message."""
MAX_FINDINGS: Final = 50
"""Static-check findings of one candidate."""
SCREENING_CHARACTERS: Final = 500
"""Characters of a line of a saved kernel's screening."""

MAX_LIBRARY_BYTES: Final = 256 << 20
"""Larger libraries are not read."""
MAX_SECTIONS: Final = 8192
"""Sections read of one ELF image."""
MAX_NAME_BYTES: Final = 4096
"""Longest symbol or section name read; longer ones count as empty."""
MAX_SYMBOL_TABLES: Final = 4
"""Symbol tables read of one library."""
MAX_SYMBOLS: Final = 100_000
"""Symbols read of one table."""
MAX_CONSTANT_BYTES: Final = 64 << 20
"""Read-only data searched for names."""
MAX_NAMES: Final = 4000
"""Names recorded of all libraries of a candidate."""
MAX_NAME_CHARACTERS: Final = 200
"""Characters of each of these names."""
MAX_IMAGES: Final = 16
"""CUDA images read of one library."""
MAX_KERNELS: Final = 64
"""Kernels whose resources are recorded."""
MAX_ATTRIBUTE_BYTES: Final = 1 << 20
"""Kernel attributes read of one image."""

MAX_LOG_BYTES: Final = 4 << 20
"""Log of a sanitizer or of ncu that is read."""
MAX_FAULTS: Final = 64
"""Different faults kept of one sanitizer report."""
MAX_FRAME_CHARACTERS: Final = 4000
"""Characters read of one stack frame."""
MAX_STACK_CHARACTERS: Final = 20_000
"""Characters read of one stack of UndefinedBehaviorSanitizer."""
MAX_FAULT_FINDINGS: Final = 12
"""Sanitizer findings recorded for one run."""
SANITIZER_MEMORY_FACTOR: Final = 2
"""Memory limit of a sanitized process, as a multiple of a contestant's."""
FIND_RUNTIME_S: Final = 60
"""Time for the compiler to name its sanitizer runtime."""

MAX_LAUNCHES: Final = 16
"""Kernel launches that ncu counts."""
MAX_COUNTED_KERNELS: Final = 4
"""Kernels whose counters are recorded, the longest first."""
MAX_STALLS: Final = 3
"""Stall reasons recorded of each kernel."""
MIN_STALL_CYCLES: Final = 0.5
"""Cycles an instruction waits for one reason, below which the reason is not recorded."""
