"""Limits of the daemon: how long it lives, and what it accepts."""

from __future__ import annotations

from typing import Final

IDLE_S: Final = 600.0
"""Seconds without a request until it ends: somebody with an editor open comes back sooner."""
DEVICE_IDLE_S: Final = 120.0
"""Seconds without a request until it gives a GPU's memory back: an open problem holds gigabytes there."""
CHECK_S: Final = 0.5
"""Seconds between two looks at what may end it."""
START_S: Final = 30.0
"""Seconds a command waits for a daemon to start before it evaluates by itself."""
STOP_S: Final = 30.0
"""Seconds a command waits for a daemon to end."""
HELLO_S: Final = 5.0
"""Seconds either side may take to prove who it is."""
MAX_MESSAGE_BYTES: Final = 256 << 20
"""Bytes of a message: a problem, a candidate, or an evaluation."""
KEY_BYTES: Final = 32
"""Bytes of the secret that a caller proves to know."""
ENVIRONMENT: Final = ("CC", "CXX", "HOME", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "XDG_CACHE_HOME")
ENVIRONMENT_PREFIXES: Final = ("CUDA_", "KERNELWRIGHT_", "MKL_", "NVIDIA_", "OMP_", "TORCH", "TRITON_")
"""Variables that evaluations depend on: other values have a daemon of their own."""
LOG_TAIL: Final = 2000
"""Characters quoted of what a daemon printed, from the end."""
