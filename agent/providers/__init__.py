"""Clients that complete prompts; the seam is `provider_kind.ProviderKind`."""

from __future__ import annotations

from typing import Final

LIVE: Final = "openai"
"""Provider of a run that names none, where a key or a base URL is set."""
OFFLINE: Final = "replay"
"""Provider of a run that names none, otherwise."""
