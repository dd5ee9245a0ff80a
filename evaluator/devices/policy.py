"""Sizes and waits of devices."""

from __future__ import annotations

from typing import Final

FLUSH_BYTES: Final = 64 << 20
"""Memory walked over to push inputs out of a CPU's last-level cache."""
FLUSH_FACTOR: Final = 3
"""Memory overwritten to the same end on a GPU, as a multiple of its L2 cache."""
STAINED_ROWS: Final = 16
"""Rows of NaN for each multiprocessor."""
STAINED_COLUMNS: Final = 2048
"""Numbers in such a row: torch's kernels keep as many in shared memory."""
MEMORY_WAIT_S: Final = 30.0
"""Seconds to wait for device memory: other evaluations come and go."""
