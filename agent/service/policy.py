"""Bounds of the service: sizes, times and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """Bounds of the bodies of requests."""

    body_bytes: int = 4 << 20
    """Largest body."""
    body_s: float = 20.0
    """Seconds for a body to arrive."""
    held_bytes: int = 64 << 20
    """Bodies of all requests together, while they arrive."""


SOURCE_CHARACTERS: Final = 4 << 20
"""Characters of a candidate or a problem."""
BATCH: Final = 256
"""Submissions in one request."""
DISCARDED_BODIES: Final = 4
"""Bodies of the largest size that are read and thrown away, so that the client hears the refusal."""
HEAD_S: Final = 10
"""Seconds for the head of a request to arrive, the first or the next on a connection."""
HEAD_BYTES: Final = 32 << 10
"""Largest head of a request."""
COMPLAINTS: Final = 20
"""Errors that a refusal lists."""
COMPLAINT_CHARACTERS: Final = 500
"""Characters of one error."""
FAILURE_CHARACTERS: Final = 4000
"""Characters saved of the message of a failed evaluation."""
MOST_CONNECTIONS: Final = 2048
"""Connections to the service that may be open at once, where the file limit allows them."""

STARTS: Final = 3
"""Times an evaluation is begun whose service dies during it before it fails."""
MOST_RESULTS: Final = 5
"""Results of one content: of five the median is told, and a lucky one moves it by one rank at most."""
DISK_RETRY_S: Final = 2.0
"""Seconds before a failed write to the disk is repeated."""
RETRY_AFTER_S: Final = 10
"""Seconds after which a client may ask a service that ends, or whose disk is full."""
RECENT_EVALUATIONS: Final = 64
"""Evaluations behind the estimate of a free place."""
FIRST_RETRY_S: Final = 5
"""Seconds to wait while no evaluation has ended yet."""
SHORTEST_RETRY_S: Final = 1
LONGEST_RETRY_S: Final = 300
"""Bounds of the estimate."""
HOUSEKEEPING_S: Final = 600.0
"""Seconds between two removals of old evaluations."""
DRAINING_WAIT_S: Final = 0.5
"""Seconds that a client waits at most for a queued evaluation, once the service ends."""
ANSWERS_S: Final = 30
"""Seconds for answers under way, once the service ends."""
LAST_S: Final = 60.0
"""Seconds for workers to release what was stopped, once the service ends."""
