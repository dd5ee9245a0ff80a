"""Bounds of evaluation by services elsewhere: times, moves and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait for services that do not answer."""

    lost_s: float = 20.0
    """Without a connection, until a service counts as lost: a restart takes less on busy cores."""
    nobody_s: float = 300.0
    """While no service answers at all."""
    recheck_s: float = 2.0
    """Between two looks after a service that does not answer."""


MOST_MOVES: Final = 2
"""Times that an evaluation moves to another service because one is lost: a candidate may be the reason."""
MOST_RESUBMISSIONS: Final = 5
"""Times that one service is asked again for what it has forgotten, or what another client cancelled."""
REQUEST_S: Final = 10.0
"""Seconds for one exchange, waiting not counted."""
WATCH_S: Final = 20.0
"""Seconds that a service is asked to wait for the next stage."""
QUEUE_S: Final = 3.0
"""The same for an evaluation in its queue, whose place is shown."""
AHEAD: Final = 2
"""Evaluations submitted for each that a service runs at once, so that it never waits for the next."""
MOST_AT_ONCE: Final = 256
"""Evaluations under way at once, each with a thread and a connection."""
GOODBYE_S: Final = 5.0
"""Seconds to withdraw what is under way, once this process ends."""
MOST_OWED: Final = 1000
"""Withdrawals that are kept for a service that does not answer."""

CLIENT_WAIT_S: Final = 30
"""Seconds that the client asks the service to wait in one request."""
CLIENT_PAUSE_S: Final = 10.0
"""Longest pause of the client between two tries, unless the service asks for more."""
CLIENT_KEPT: Final = 64
"""Idle connections that a client keeps."""
ANSWER_BYTES: Final = 64 << 20
"""Largest answer that the client reads."""
