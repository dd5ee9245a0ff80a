"""Limits of the lean headers: time to prepare them, and when headers are precompiled."""

from __future__ import annotations

from typing import Final

PREPARE_S: Final = 900.0
"""Time to compile the helper library, which reads torch's full headers, or one precompiled header."""
MAX_PRECOMPILED: Final = 12
"""Precompiled headers kept per set of lean headers; each is about 80 MB with g++, 15 MB with clang."""
PRECOMPILE_AFTER_USES: Final = 2
"""Builds with the same flags in one process before g++ precompiles, which costs what five builds save."""
PRECOMPILE_AFTER_USES_CLANG: Final = 1
"""The same for clang, which precompiles in the time of one build and then builds in a quarter of it."""
