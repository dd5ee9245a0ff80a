"""The entries asked for last, as many as a number of bytes holds."""

from __future__ import annotations

import sys
from collections import OrderedDict

from kernelwright.agent.service.store import StoredEvaluation


class RecentEntries:
    """A least-recently-used cache of ended evaluations. Not for several threads at once."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, StoredEvaluation] = OrderedDict()
        self.held_bytes = 0

    def get(self, evaluation: str) -> StoredEvaluation | None:
        """An entry, which is now the last that will go."""
        found = self._entries.get(evaluation)
        if found is not None:
            self._entries.move_to_end(evaluation)
        return found

    def put(self, entry: StoredEvaluation) -> None:
        """Keep an entry, and let go of the oldest beyond the limit."""
        self.drop(entry.id)
        self._entries[entry.id] = entry
        self.held_bytes += _size(entry)
        while self.held_bytes > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.held_bytes -= _size(oldest)

    def drop(self, evaluation: str) -> None:
        """Forget an entry, if it is there."""
        found = self._entries.pop(evaluation, None)
        if found is not None:
            self.held_bytes -= _size(found)


def _size(entry: StoredEvaluation) -> int:
    # What surrounds the text of an entry was measured at about 1.5 kB.
    return 1500 + sys.getsizeof(entry.verdict or "") + sys.getsizeof(entry.failure or "")
