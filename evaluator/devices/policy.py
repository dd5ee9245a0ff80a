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
UNUSED_BYTES: Final = 4 << 30
"""Freed memory that a process may hold when it takes more. With eight evaluations on an H200, to give all of
it back at every step of opening, and to ask how much is free, took a quarter of opening: both wait for
whatever other processes ask of the driver, such as contexts."""
MEMORY_POLL_S: Final = 0.1
"""Seconds between two attempts to get it."""
GUARD_BYTES: Final = 64 << 20
"""Address space left unmapped on either side of guarded memory: wrong indices miss by rows."""
GUARD_SLACK: Final = 4096
"""Bytes at least from a guarded tensor's other edge to unmapped memory: an access faults at one edge."""
GUARD_ALIGNMENT: Final = {"cpu": 64, "cuda": 32}
"""Alignment of guarded tensors, up to which bytes behind a tensor are not seen to be read. 64 bytes are what
torch gives on a CPU and AVX-512 needs; 32 are the widest access of a GPU (16 bytes; 32 on Blackwell) and what
tensor maps need at most (CUDA driver API, `cuTensorMapEncodeTiled`)."""
DISTURBANCES: Final = (0.25, 0.5, 1.0, 2.0)
"""Blocks of disturbing kernels, as multiples of a GPU's multiprocessors: 0.2 to 0.6 ms on an H200, where they
raised the wrong calls of a row shifted in place across blocks from 18 to 30 of 30."""
DISTURBING_COLUMNS: Final = 1 << 17
"""Numbers each of these blocks works on."""
NOISE_BYTES: Final = 64 << 10
"""Bytes of noise that a device writes to one place. A GPU copies fewer without its copy engines: outputs of
16 KiB and less took 0.30 ms of each turn from an H100's multiprocessors, those of 64 KiB and more none."""
SHORTEST_GAP_NS: Final = 10_000
"""Gap between two readings of a GPU's clock in which another process had it; a reading takes 2 µs at most."""
WATCH_LIMIT_NS: Final = 700_000_000
"""Nanoseconds after which a watch ends by itself: whatever loads a kernel meanwhile waits for that.
A candidate may queue for 0.3 s, and publishing takes tens of milliseconds."""
WATCH_WAIT_S: Final = 5.0
"""Seconds to wait for a watch to begin: processes take turns of a few milliseconds on a GPU."""
