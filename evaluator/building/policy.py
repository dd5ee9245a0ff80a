"""Limits of builds: sizes of requests, flags and logs, resources of the build sandbox, the build cache."""

from __future__ import annotations

from typing import Final

MAX_REQUEST_DEPTH: Final = 4
"""Levels of a build request, itself included; honest ones have two."""
MAX_REQUEST_PARTS: Final = 5_000
"""Strings and containers in a build request."""
MAX_REQUEST_BYTES: Final = 24 << 20
"""All texts of a request as JSON, so that it fits one message with room to spare."""
MAX_REQUEST_ERRORS: Final = 3
"""Validation errors of a malformed request that are reported."""
MAX_ERROR_CHARACTERS: Final = 200
"""Characters of each of these errors."""

MAX_PREDICTED_BUILDS: Final = 4
"""Builds of a candidate that are predicted from its text; more begin when it asks for them."""
MAX_PREDICTION_STEPS: Final = 2_000
"""Expressions looked at for that: names may refer to names."""
MAX_PREDICTED_CHARACTERS: Final = 1 << 20
"""Characters of a predicted text: sums of sums double with each line."""

MAX_FLAG_CHARACTERS: Final = 4_000
"""Characters of one flags entry, which may hold several flags."""
MAX_FLAGS_CHARACTERS: Final = 32_000
"""Characters of all flags of a request; honest ones need far fewer, a command line holds far more."""
MAX_FLAG_NOTES: Final = 16
"""Notes about ignored flags that are recorded."""
SHOWN_FLAG_CHARACTERS: Final = 120
"""Characters of a flag that a message shows."""

BUILD_MEMORY_BYTES: Final = 8 << 30
"""Memory of one build sandbox; nvcc with torch's headers needs 3 GiB."""
LIBRARY_BYTES: Final = 512 << 20
"""Largest built library, and largest file a build may write."""
MAX_PACKED_BYTES: Final = 64 << 20
"""Largest library that is sent to another machine (honest: a few MiB); others are built there."""
BUILD_SCRATCH_BYTES: Final = 4 << 30
"""Scratch space of one build."""
BUILD_PROCESSES: Final = 256
"""Tasks of one build."""
BUILD_NICENESS: Final = 10
"""Priority of compilers: a thread that launches timed GPU kernels must not wait for a core."""
LOG_HEAD: Final = 16_000
"""Characters kept of the beginning of a compiler's log, where the first error is."""
LOG_TAIL: Final = 2_000
"""Characters kept of its end."""
CHECK_OUTPUT_CHARACTERS: Final = 2_000
"""Characters kept of a failed self-test's output."""
FULL_BUILD_BYTES: Final = 3 << 30
"""Memory one build with torch's full headers may need: g++ 1.3 GiB, nvcc 3 GiB. Limits how many run."""
IDENTIFY_S: Final = 60
"""Time for a compiler to answer `--version`."""

PREPARE_S: Final = 900.0
"""Time to compile the helper library, which reads torch's full headers, or one precompiled header."""
PREPARE_NICENESS: Final = 0
"""Priority of that where it serves GPUs: every build waits for it, and starting processes would leave it no
core. On a CPU calls may be timed beside it."""
MAX_PRECOMPILED: Final = 12
"""Precompiled headers kept per set of lean headers; each is about 80 MB with g++, 15 MB with clang."""
PRECOMPILE_AFTER_USES: Final = 2
"""Builds with the same flags in one process before g++ precompiles, which costs what five builds save."""
PRECOMPILE_AFTER_USES_CLANG: Final = 1
"""The same for clang, which precompiles in the time of one build and then builds in a quarter of it."""

CACHE_BYTES: Final = 20 << 30
"""Size of the build cache above which the oldest entries are removed."""
CACHE_FULLNESS_AFTER_EVICTION: Final = 0.9
"""Share of `CACHE_BYTES` that an eviction leaves."""
ENTRY_IN_USE_S: Final = 600.0
"""Entries used this recently are never evicted: a process may be about to open one."""
