"""A provider's load and retries, as it reports them to an observer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProviderState:
    """Current load of a provider."""

    in_flight: int
    """Tries under way."""
    queued: int
    """Tries that wait for their turn."""
    concurrency: int
    """Tries the endpoint gets at once; falls while it says that we ask too much."""
    paused_s: float
    """Seconds that nobody is asked, because the endpoint wants it so; 0 when others go on."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """A try brought no reply, and another follows."""

    provider: str
    model: str
    problem: str
    message: str
    seconds: float
    """Until the next try."""
    state: ProviderState

    @property
    def lasts_s(self) -> float:
        """Seconds until something is asked again."""
        return max(self.seconds, self.state.paused_s)
