"""Load of a CPU by other programs, looked at while the evaluation itself rests."""

from __future__ import annotations

import os
from pathlib import Path

import torch


def competing_threads() -> int:
    """Count threads of others that want a core and find none beside ours; 0 where the system does not say.

    To be called while every contestant is frozen: of all threads that are ready to run, one is the caller's.
    """
    try:
        running = int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0
    spare = len(os.sched_getaffinity(0)) - torch.get_num_threads()
    return max(0, running - 1 - max(0, spare))
