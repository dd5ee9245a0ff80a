"""The base of all data that is written to disk: frozen, closed pydantic records and their hashing."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen record; unknown fields are an error, and NaN and infinity survive a round trip."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="constants"
    )


def sha256_text(text: str) -> str:
    """Hex SHA-256 of the UTF-8 bytes; lone surrogates from broken input are kept, not raised on."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
