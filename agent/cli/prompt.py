"""`kernelwright prompt`: exactly what would be sent for a problem, with token counts."""

from __future__ import annotations


def prompt() -> None:
    """Print exactly what would be sent."""
