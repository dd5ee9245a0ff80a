"""SDK clients of one endpoint: as many as it takes for none to hold more than a few connections.

The HTTP library below the SDK looks at every connection of a client twice for each request: with 256 of them
that was nearly half of the work of a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kernelwright.agent.providers.endpoint import Endpoint, RetryPolicy, is_loopback
from kernelwright.agent.providers.policy import CONNECTIONS
from kernelwright.agent.providers.provider_errors import diagnose, failures
from kernelwright.agent.records.messages import ProviderError

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class Clients:
    """Opens clients when they are needed. One instance belongs to one event loop; close it there."""

    def __init__(self, endpoint: Endpoint, patience: RetryPolicy, *, sdk_retries: int = 0) -> None:
        self._endpoint = endpoint
        self._patience = patience
        self._sdk_retries = sdk_retries
        self._in_flight: dict[AsyncOpenAI, int] = {}
        """Requests of each client."""

    @contextmanager
    def lease(self) -> Iterator[AsyncOpenAI]:
        """A client to make one request with; raises ProviderError where the endpoint's URL is none."""
        free = (client for client, requests in self._in_flight.items() if requests < CONNECTIONS)
        client = next(free, None) or self._open()
        self._in_flight[client] = self._in_flight.get(client, 0) + 1
        try:
            yield client
        finally:
            self._in_flight[client] -= 1

    @contextmanager
    def lease_once(self) -> Iterator[AsyncOpenAI]:
        """The same for a call that is not tried again here; raises ProviderError where it failed, too."""
        try:
            with self.lease() as client:
                yield client
        except failures() as error:
            trouble = diagnose(error, self._endpoint, "")
            raise ProviderError(trouble.message, fatal=trouble.fatal) from error

    async def close(self) -> None:
        while self._in_flight:
            client, _ = self._in_flight.popitem()
            await client.close()

    def _open(self) -> AsyncOpenAI:
        import openai

        endpoint, patience = self._endpoint, self._patience
        try:
            # Proxies have no business on this machine.
            is_local = is_loopback(endpoint.base_url)
            return openai.AsyncOpenAI(
                api_key=endpoint.api_key or "none",
                base_url=endpoint.base_url,
                max_retries=self._sdk_retries,
                timeout=openai.Timeout(patience.timeout_s, connect=patience.connect_s),
                http_client=openai.DefaultAsyncHttpxClient(trust_env=False) if is_local else None,
            )
        except ValueError as error:
            raise ProviderError(
                f"{endpoint.name}: bad base URL {endpoint.base_url!r}: {error}", fatal=True
            ) from error
