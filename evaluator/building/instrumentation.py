"""The variant of a build that checks its own memory accesses: AddressSanitizer and UBSan.

Its flags come after the candidate's and become part of the content address; no candidate chooses them.
Device code needs no variant: compute-sanitizer instruments it when it is loaded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kernelwright.evaluator.building.flags import Flags

_CHECKS: Final = "-fsanitize=address,undefined"
_UNCHECKED: Final = (
    "-fno-sanitize=vptr,null,alignment,object-size,nonnull-attribute,returns-nonnull-attribute"
)
"""Most of what UBSan costs in torch's headers (13 s of 33); AddressSanitizer sees null by itself."""
_HOST: Final = (_CHECKS, _UNCHECKED, "-fno-omit-frame-pointer", "-g1", "-O1")
_STRIPPING: Final = frozenset(("-s", "-Wl,-s", "-Wl,--strip-all"))
"""Would take away the line numbers that reports need."""


def instrumented(flags: Flags) -> Flags:
    """The flags of the checked variant."""
    return replace(
        flags,
        cxx=[*(flag for flag in flags.cxx if flag not in _STRIPPING), *_HOST],
        link=[*(flag for flag in flags.link if flag not in _STRIPPING), _CHECKS],
    )
