"""Sizes of the archive, and the difference between machines of one kind."""

from __future__ import annotations

from typing import Final

RESERVED_BYTES: Final = 16 << 20
"""Bytes reserved while a run is written: room for some hundred replies in flight."""
LOCK_POLL_S: Final = 0.02
"""Seconds between two tries to take a lock."""
MACHINES_DIFFER: Final = 0.03
"""Relative gap between the intervals of two scores that another machine of the kind explains. Of 30 saved
kernels verified on a second H200, the intervals of 25 met; three lay up to 0.9 % apart, the other two 6 and
7 %, since `torch.compile` had chosen another kernel."""
