"""Numbers that decide what sanitizers, stress, profilers and the roofline look at, and for how long."""

from __future__ import annotations

from typing import Final

# Sanitizers.
DECIDING_TOOLS: Final = ("memcheck", "racecheck")
"""compute-sanitizer's tools whose findings fail a candidate: memory errors and races."""
REMARKING_TOOLS: Final = ("synccheck", "initcheck")
"""Tools whose findings are remarks: they run only where all are wanted."""
SANITIZED_CALLS: Final = 2
"""Calls under a tool: the second finds what the first left behind."""
SLOW_CALL_S: Final = 2.0
"""Seconds of a first call under a tool from which on it is the only one: no other candidate's can begin."""
REPORT_S: Final = 20.0
"""Seconds a tool has for its report."""
STRESS_S: Final = 4.0
"""Seconds of calls under stress."""
LEAST_STRESS_S: Final = 1.0
"""The same at least, however short the time limit: fewer calls would find no race."""
STRESS_SHARE: Final = 1 / 4
"""Share of the time limit that stress may take: the tools need the rest."""
COMPILE_S: Final = 120.0
"""Seconds on top where every process compiles the candidate's kernels again."""
SANITIZED_CALL_S: Final = 60.0
"""Seconds one call may take."""
LARGEST_ELEMENTS: Final = {"cpu": 1 << 22, "cuda": 1 << 20}
"""Elements of inputs and outputs above which a tool gets smaller shapes, unless the candidate is quick."""
SLOWDOWN: Final = 60.0
"""Times longer that host code takes with its checks on and little optimisation."""
QUICK_SHARE: Final = 1 / 4
"""Share of the time limit that a quick candidate's calls fill at most."""
SMALLER_SHAPES: Final = 2
"""Smaller shapes that are tried before the evaluated ones."""
SHOWN_WORDS: Final = 3
"""Words shown of those by which a candidate can hide from a tool."""

# Stress.
FEWEST_THREADS: Final = 4
"""Threads at least, even on smaller machines."""
MOST_THREADS: Final = 65
"""Threads at most: one more than a common limit of 64."""
FEWEST_CALLS: Final = 3
"""Calls with each number of threads at least."""
MOST_CALLS: Final = 40
"""Calls with each number of threads at most."""
STRESS_PATIENCE: Final = 3
"""Times the stress time after which further numbers of threads are left out, where calls are slow."""
LOAD_SIZE: Final = 2048
"""Rows of the matrix products that keep a GPU busy beside the candidate."""

# Profiles and counters.
PROFILE_S: Final = 30.0
"""Seconds for one profiled call."""
COUNTED_CALL_S: Final = 60.0
"""Seconds for the counted call: each launch is repeated until all counters are read."""

# Roofline.
PRODUCTS_OF_SPLIT_OPERANDS: Final = 3
"""TF32 products that are as exact as one of float32: of high parts, and of each with the other's low part."""
COPY_BYTES: Final = {"cpu": 256 << 20, "cuda": 1 << 30}
"""Bytes copied to measure bandwidth: far more than any cache holds."""
MATRIX_SIZE: Final = {"cpu": 1024, "cuda": 4096}
"""Rows of the product that measures arithmetic."""
REPEATS: Final = {"cpu": 9, "cuda": 40}
"""Runs of each, of which the fastest counts. With 12, copies on one H200 reached 4100 to 4237 GB/s in
different processes, and kernels that mostly read up to 103 % of that."""
WARM_UPS: Final = 2
"""Runs before them."""
HOPELESS_MS: Final = 1e3
"""Duration of a warm-up from which on it is the measurement."""
MEASUREMENTS: Final = 3
"""Measurements by different processes, the best of which counts: the machine may have been busy."""
COPY_MEMORY_SHARE: Final = 0.1
"""Share of the free memory that the copy takes at most."""
UNKNOWN_CACHE_BYTES: Final = 64 << 20
"""Last-level cache where the system names none."""
SECTOR_BYTES: Final = 32
"""Least a GPU fetches from memory."""
SAMPLES: Final = 16
"""Elements of an output searched for in the inputs, to tell a view from a computation."""
