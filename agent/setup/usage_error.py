"""The error of a request that cannot be: a missing file, contradictory settings."""

from __future__ import annotations


class UsageError(Exception):
    """The user asked for something that cannot be; the message names the value and the way out."""
