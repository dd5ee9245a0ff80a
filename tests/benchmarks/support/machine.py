"""Counts the work of this whole machine."""

from __future__ import annotations

import os
from pathlib import Path


def busy_s() -> float:
    """Core-seconds this machine has worked since it started, whoever for."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")
