"""Reads the data inside a page."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any


def unpack(text: str) -> dict[int, Any]:
    """The values of a page, by id."""
    lines = zlib.decompress(base64.b64decode(text)).decode().splitlines()
    return dict(json.loads(line) for line in lines)
