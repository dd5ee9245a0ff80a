"""The data inside a page: JSON lines, deflated and in base64, up to a limit of bytes.

The alphabet of base64 holds nothing that could end a script element or begin another, whatever the texts are.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Final

_SPARE: Final = 16
"""Bytes that end a deflated stream, and then some."""


class Packer:
    """Takes values as long as there is room."""

    def __init__(self, limit: int) -> None:
        """`limit` is in bytes of base64."""
        self.left_out: set[int] = set()
        """Ids for which there was no room."""
        self._limit = limit * 3 // 4 - _SPARE
        self._stream = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS)
        self._parts: list[bytes] = []
        self._size = 0
        self._taken: set[int] = set()

    @property
    def room(self) -> int:
        """Deflated bytes that still fit."""
        return self._limit - self._size

    def add(self, key: int, value: object) -> bool:
        """Add a value under an id, once; False when there was no room for it."""
        if key in self._taken:
            return True
        line = json.dumps([key, value], allow_nan=False, separators=(",", ":")) + "\n"
        stream = self._stream.copy()
        data = stream.compress(line.encode()) + stream.flush(zlib.Z_SYNC_FLUSH)
        if len(data) > self.room:
            self.left_out.add(key)
            return False
        self._stream = stream
        self._parts.append(data)
        self._size += len(data)
        self._taken.add(key)
        self.left_out.discard(key)
        return True

    def text(self) -> str:
        """Everything taken, in base64; nothing can be added afterwards."""
        return base64.b64encode(b"".join((*self._parts, self._stream.flush()))).decode("ascii")


def unpack(text: str) -> dict[int, object]:
    """The values of a page, by id."""
    lines = zlib.decompress(base64.b64decode(text)).decode().splitlines()
    return dict(json.loads(line) for line in lines)
