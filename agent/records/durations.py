"""Durations for people."""

from __future__ import annotations


def seconds(value: float) -> str:
    """A duration for people: `4.2 s`, `3 m 05 s`, `2 h 10 m`."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} m"


def milliseconds(value: float) -> str:
    """A time per call, with three figures."""
    return f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"
