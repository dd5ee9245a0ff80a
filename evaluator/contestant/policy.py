"""Limits of what a contestant passes on; the receivers set their own (`ipc/policy.py`, `building/`)."""

from __future__ import annotations

from typing import Final

MOST_FILES: Final = 500
"""Headers found beside a candidate's sources."""
MOST_BYTES: Final = 8 << 20
"""Bytes of those headers together."""
LOG_TAIL: Final = 20_000
"""Characters of a compiler's log that go into the exception of a failed build."""
MOST_NAME: Final = 300
"""Characters of a profiled kernel's name; templates make names of thousands."""
WARM_UPS: Final = 4
"""Calls that warm a process up for a lone one on a CPU."""
WARM_UP_S: Final = 0.02
"""Seconds after which it is warm, whatever is left of them: the referee waits no longer than for launches."""
SPOILED_CALLS: Final = 32
"""Calls of a queued batch whose outputs are spoiled; more would take the host milliseconds a batch. Zeros
brought ahead by a copy engine, on 764 matrices of 16 KiB, were credited 2.8 times their speed on an H100
while none were spoiled."""
