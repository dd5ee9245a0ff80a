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
_UNSEEN: Final = (
    "-U__SANITIZE_ADDRESS__",
    *(f"-D{name}=unused" for name in ("no_sanitize(...)", "__no_sanitize__(...)")),
    *(f"-D{name}=unused" for name in ("no_sanitize_address", "__no_sanitize_address__")),
    *(f"-D{name}=unused" for name in ("no_sanitize_undefined", "__no_sanitize_undefined__")),
)
"""Code can neither ask whether it is instrumented nor ask not to be, however its text is put together."""
_STRIPPING: Final = frozenset(("-s", "-Wl,-s", "-Wl,--strip-all"))
"""Flags that remove the line numbers reports need."""


def instrumented(flags: Flags) -> Flags:
    """Add instrumentation to a candidate's flags."""
    return replace(
        flags,
        cxx=[*(flag for flag in flags.cxx if flag not in _STRIPPING), *_INSTRUMENTATION, *_UNSEEN],
        link=[*(flag for flag in flags.link if flag not in _STRIPPING), _CHECKS],
    )
