"""The number of evaluations a device takes at once."""

from __future__ import annotations

from typing import Final

PER_GPU: Final = 4
"""Evaluations at once for each GPU, where the host has the cores for them."""
CORES_EACH: Final = 3
"""Cores for each of them."""
