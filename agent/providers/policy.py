"""Limits of the clients: sizes, retries, rates and prices."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

LONGEST_STREAM: Final = 1 << 28
"""Bytes of a stream, thirty times the longest replies of today; a longer one has no end."""
LARGEST_REQUEST: Final = 64 << 20
"""Bytes of the largest request that the replay server reads."""
MOST_TOKENS: Final = 10**9
"""Tokens of a question or a reply; an endpoint that counts more has miscounted, and would end a budget."""
EXPECTED_REPLY_TOKENS: Final = 4096
"""Tokens reserved of a token rate until the reply has come, when the request sets no maximum."""
TRIES_TO_REACH: Final = 3
"""Tries before an endpoint that never answered anything is called unreachable."""
CONNECTIONS: Final = 32
"""Requests that one SDK client has in flight at most; with 256 in one client its pool took nearly half of the
work of a request."""
STREAM_PIECE: Final = 256
"""Characters in one chunk of a replayed stream."""
SHORTEST_SECRET: Final = 8
"""Characters of a key that is blanked out of messages; shorter ones are words that a local server wants to
see: `none`, `EMPTY`."""
TOLERATED_REFUSALS: Final = 0.1
"""Share of 429s that does not lower the concurrency: endpoints refuse a few for reasons unrelated to our
load, and probing for the limit costs a few more."""
REFUSALS_BEFORE_PAUSE: Final = 1 / 16
"""429s in a row, as a share of the concurrency (and at least 3), after which every request waits as long as
the endpoint asked; the refused one waits in any case. Fewer in a row only mean that the endpoint is full."""
BUCKET_SECONDS: Final = 10.0
"""Seconds of a rate that can be spent at once: a minute's allowance is not spent in its first second."""
RETRIES_BEFORE_FALLBACK: Final = 4
"""Retries at an endpoint that has another behind it: half of a lone one's."""

HIGHEST_PRICE: Final = 10**6
"""Dollars for a million tokens that a price table may state."""
SMALLEST_COST: Final = Decimal("1e-9")
"""Costs are stored to a billionth of a dollar: a float carries that exactly, so sums agree to the cent."""
BATCH_FACTOR: Final = Decimal("0.5")
"""Factor on listed prices under the Batch API."""

MAX_MAILBOX_BYTES: Final = 4_000_000
"""Bytes of a reply in a mailbox; the longest replies of models are a tenth of it."""
