"""Address, key and time-outs of an OpenAI-compatible endpoint. Reads no environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

OPENAI_URL: Final = "https://api.openai.com/v1"


def is_loopback(url: str) -> bool:
    """Return whether an address names this machine."""
    return is_loopback_host(urlsplit(url).hostname or "")


def is_loopback_host(host: str) -> bool:
    """Return whether a host is reachable from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One OpenAI-compatible endpoint."""

    name: str = "openai"
    """The provider's name in records."""
    base_url: str = OPENAI_URL
    api_key: str = field(default="", repr=False)
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable the key came from, named when the key is refused."""
    stream: bool = True
    """True where to ask for a stream; a stream that stalls or is cut is noticed sooner than a whole reply."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Time-outs and retries."""

    timeout_s: float = 1200.0
    """One try, to the last byte of the reply."""
    connect_s: float = 15.0
    max_retries: int = 8
    first_wait_s: float = 0.5
    """Wait before the first retry; doubles each time."""
    longest_wait_s: float = 60.0
    longest_retry_after_s: float = 900.0
    """An endpoint that asks for more than this gets no retry."""
