"""Numbers that decide how runs are set up."""

from __future__ import annotations

from typing import Final

EXPERIMENT_ATTEMPTS: Final = 8
"""Replies for each problem and strategy of an experiment that nothing else bounds."""

TOKEN_FILE_BYTES: Final = 64 << 10
"""Largest file of tokens of judges."""

MOST_EXPERIMENT_ATTEMPTS: Final = 64
"""Replies a strategy of an experiment is laid out for where only tokens or money bound it."""
