"""Sizes of the archive."""

from __future__ import annotations

from typing import Final

RESERVED_BYTES: Final = 16 << 20
"""Bytes reserved while a run is written: room for some hundred replies in flight."""
LOCK_POLL_S: Final = 0.02
"""Seconds between two tries to take a lock."""
