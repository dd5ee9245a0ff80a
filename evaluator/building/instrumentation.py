"""Flags of instrumented builds, which check their own memory accesses: AddressSanitizer and UBSan.

They follow the candidate's flags and are part of the content address. Device code needs none:
compute-sanitizer instruments it when it is loaded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kernelwright.evaluator.building.flags import Flags

_CHECKS: Final = "-fsanitize=address,undefined"
_UNCHECKED: Final = (
    "-fno-sanitize=vptr,null,alignment,object-size,nonnull-attribute,returns-nonnull-attribute"
)
"""Checks that cost most in torch's headers (13 s of 33); AddressSanitizer reports null by itself."""
_INSTRUMENTATION: Final = (_CHECKS, _UNCHECKED, "-fno-omit-frame-pointer", "-g1", "-O1")
_STRIPPING: Final = frozenset(("-s", "-Wl,-s", "-Wl,--strip-all"))
"""Flags that remove the line numbers reports need."""


def instrumented(flags: Flags) -> Flags:
    """Add instrumentation to a candidate's flags."""
    return replace(
        flags,
        cxx=[*(flag for flag in flags.cxx if flag not in _STRIPPING), *_INSTRUMENTATION],
        link=[*(flag for flag in flags.link if flag not in _STRIPPING), _CHECKS],
    )
