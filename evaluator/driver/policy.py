"""Limits, stocks and prices that decide how long the driver waits and what it keeps ready."""

from __future__ import annotations

from typing import Final

OPEN_S: Final = 900.0
"""Seconds of silence after which a referee counts as hung, beyond an evaluation's own limit."""
TOOL_REPORT_S: Final = 15.0
"""Seconds a watched process may take to end by itself, so that its tool can write its report."""
LAST_BREATH_S: Final = 1.0
"""Seconds between a process's descriptors closing and its death being known."""
MOST_FAILED_BUILDS: Final = 64
"""Builds of one evaluation that came to nothing and are recorded all the same: the first ones."""
MOST_BUILDS: Final = 64
"""Different builds a process may ask for."""
MOST_LIBRARY_BYTES: Final = 1 << 30
"""Bytes of all libraries that a process is handed; they lie outside its sandbox."""
OUTPUT_TAIL: Final = 4000
"""Characters kept of what a candidate printed, from the end."""

START_S: Final = 120.0
"""Seconds a process that is started ahead may take to import torch and to open its device."""
STOCK: Final = {"cpu": 2, "cuda": 4}
"""Processes of a kind kept ready: a candidate and a baseline; on a GPU for several evaluations at once."""
TOOL_STOCK: Final = 1
"""Processes kept ready under each sanitizer of a GPU: without, sanitizing waited 2 s for torch on an H200."""
CORES_EACH: Final = 2
"""Cores for each process started at once: importing torch keeps one busy, and others evaluate beside it."""
SETTLE_S: Final = 10.0
"""Seconds that closing waits for processes that are still starting."""

OPENING_S: Final = {"cpu": 8.0, "cuda": 30.0}
"""Seconds until a new referee has evaluated its first candidate, beyond what a warm one takes."""
CROWDED_SHARE: Final = 0.35
"""Share of a GPU's memory that is free below which idle referees end when a problem is opened: of 24 problems
evaluated eight at a time on an H200, each held 6 to 20 GiB, and two evaluations ran out of memory and were
repeated while others' referees idled."""
OTHERS_SHARE: Final = 0.25
"""Share of a GPU's memory in use, after our evaluations there have ended, from which on other programs hold
it: our idle processes hold half a GiB each."""
OTHERS_WAIT_S: Final = 120.0
"""Seconds to wait for such programs: another evaluator's evaluations end in the meantime."""
OTHERS_POLL_S: Final = 2.0
"""Seconds between two questions about that, each of which starts a program."""
CANCEL_CHECK_S: Final = 0.5
"""Seconds between two looks at the cancel token of an evaluation that waits."""

REFEREE_MEMORY_GIB: Final = 64
"""Memory of a referee; on a CPU, files shared with contestants count as well."""
REFEREE_TASKS: Final = 1024
"""Processes and threads of a referee."""
SCRATCH_BYTES: Final = 1 << 30
"""Temporary files of a referee."""
OTHER_TASKS: Final = 64
"""Tasks of a contestant beside the threads torch computes with: CUDA's, autograd's, a compiler's."""

INSPECTION_S: Final = 300.0
"""Seconds an inspection of a problem may take."""
DESCRIPTION_S: Final = 30.0
"""Seconds a description of a problem may take."""
DYING_S: Final = 5.0
"""Seconds to wait for how an inspecting referee ended, once it hung up."""
INSPECTION_MEMORY_SHARE: Final = 0.8
"""Share of the machine's available memory that an inspection may use."""
INSPECTION_TAIL: Final = 500
"""Characters of an inspecting referee's output that are quoted, from the end."""
