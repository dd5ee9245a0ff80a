"""Limits of sandboxes themselves: time-outs, watchdog intervals, allowances. Each program's own limits are in
its `SandboxPolicy`."""

from __future__ import annotations

from typing import Final

START_S: Final = 60.0
"""Time for a sandbox to start its program."""
PRELOAD_S: Final = 300.0
"""Time for a fork server to import its modules, on a busy machine."""
MAX_REFUSALS: Final = 2
"""Programs in a row that a fork server fails to start before all are executed instead."""
PROBE_S: Final = 30.0
"""Time for the trial program that probes a tier."""
PROBE_MEMORY_BYTES: Final = 512 << 20
"""Memory of that program."""
PROBE_FILE_BYTES: Final = 16 << 20
"""Its files and scratch."""
PROBE_PROCESSES: Final = 64
"""Its tasks."""
BUBBLEWRAP_S: Final = 10.0
"""Time for bubblewrap to answer `--help`."""
FREEZE_S: Final = 5.0
"""Time for all tasks of a tree to stop, by cgroup or by signals."""
FORK_S: Final = 0.2
"""Time for a task that is told to stop while it sleeps within a fork to finish that fork.

On two cores with five busy processes each, 15 of 4280 stops of forking trees missed a child without it, and
1 of 3804 with 0.05 s.
"""
DEATH_S: Final = 30.0
"""Time for a killed process to die; one in a device driver may hang."""
OUTPUT_S: Final = 2.0
"""Time for the output of a dead process to arrive."""

OUTPUT_BYTES: Final = 262_144
"""Output kept of a program by default, half from its beginning and half from its end."""
READ_BYTES: Final = 65_536
"""Output read at once."""
READ_PAUSE_S: Final = 0.01
"""Pause between reads of a program that floods its output: 6 MB/s instead of one of our cores."""
WATCHDOG_S: Final = 0.1
"""Interval of the watchdog that enforces limits no cgroup enforces."""
CONTROL_LINE_BYTES: Final = 4096
"""Longest line on the control channel."""

OPEN_FILES: Final = 65_536
"""Open files of one process."""
EXTRA_TASKS: Final = 4
"""Tasks of ours that a resource limit inside the sandbox may count."""
EXTRA_PROCESSES: Final = 2
"""Monitor and init, which a cgroup counts too."""
TASK_SLACK: Final = 8
"""Tasks above the limit at which the watchdog kills: it may count tasks of ours."""
UIDS: Final = range(61_000, 65_000)
"""User ids for sandboxes under root, one each."""
MAX_LINKS: Final = 16
"""Links followed from the interpreter's name to its file."""
