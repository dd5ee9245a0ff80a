"""The number of evaluations a device takes at once, the longest wait for a device or a build, file sizes."""

from __future__ import annotations

from typing import Final

PER_GPU: Final = 7
"""Evaluations at once for each GPU, where the host has the cores for them."""
CORES_EACH: Final = 2
"""Cores for each of them."""
GIB_EACH: Final = 14.0
"""GiB of a GPU's memory for each of them: seven at once held up to 98, of 43 problems of the library."""
DEVICE_WAIT_S: Final = 3600.0
"""Seconds to wait for a device: four evaluations at their limit of 900 s. The longest hold seen was 167 s."""
WANTED_POLL_S: Final = 0.01
"""Seconds between two looks whether somebody wants a shared device alone; a look is two system calls."""
SHARED_SLICE_S: Final = 0.5
"""Seconds that work which shares a device goes on at least, between two that have it alone for 1 to 4 s each:
others may wait for it, such as for calls under a tool."""
BUILD_WAIT_S: Final = 1200.0
"""Seconds to wait for another process to build the same: a build has 300 s, and may queue behind others."""
MAX_FILE_BYTES: Final = 64 << 20
"""Largest file of others that is read whole; a kernel's scores are some 100 KB, a run's text seldom 1 MB."""
