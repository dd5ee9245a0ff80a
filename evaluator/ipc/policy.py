"""Bounds of what crosses between the processes. A message that exceeds one is refused, never cut."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE_BYTES: Final = 32 << 20
"""Length of one line on a channel: room for the largest build request, which is 24 MiB."""
MAX_DEPTH: Final = 200
"""Lists and objects within one another: far below where Python's JSON reader and writer give up, whatever the
depth of the stack, so that what was received can always be passed on."""
MAX_FDS: Final = 8
"""File descriptors that may ride on one message."""
SEND_S: Final = 30.0
"""Seconds that the other side of a channel may take to read a message."""
MAX_NAME: Final = 200
"""Characters of a name: of a layout, a model, a device, an exception's type."""
MAX_LINE: Final = 500
"""Characters of a complaint or a reason."""
MAX_REPORT: Final = 8000
"""Characters of an exception's text or traceback."""
MAX_CALLS: Final = 1 << 20
"""Calls, trials or threads that one message may ask for."""
MAX_KEPT: Final = 4
"""Calls of a layout whose outputs their caller keeps."""
MAX_ITEMS: Final = 1 << 16
"""Elements of a list in a message, unless its field says less."""
MAX_EVENTS: Final = 64
"""Entries of a profile, longest first."""
MAX_OUTPUT_BYTES: Final = 64 << 30
"""Bytes of all outputs of one call of a saved kernel in a sandbox."""
MAX_SECONDS: Final = 1e7
"""Seconds any message may speak of; about four months."""
MAX_MS: Final = 1e10
"""Milliseconds, likewise."""

NOISE_AMPLITUDE: Final = 0.5
"""Farthest that noise moves a parameter off the constant it would start as."""
FEWEST_PATTERNED: Final = 4
"""Elements of a matrix of two numbers that count as a pattern, such as an identity."""
FEWEST_ORDERED: Final = 12
"""Numbers in a row that are in order by design and not by chance."""
FEWEST_REPEATED: Final = 32
"""Numbers that equal those of the first row by design and not by chance."""
FIRST_LOOK: Final = 64
"""Elements looked at before all are: they tell most tensors that are not constant."""
