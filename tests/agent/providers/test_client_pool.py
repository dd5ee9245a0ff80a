"""SDK clients are opened as the load asks for them, and all of them are closed."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest

from kernelwright.agent.providers.client_pool import Clients
from kernelwright.agent.providers.endpoint import Endpoint, RetryPolicy
from kernelwright.agent.providers.policy import CONNECTIONS
from kernelwright.agent.records.messages import ProviderError

pytestmark = pytest.mark.anyio


def clients(base_url: str = "http://127.0.0.1:1/v1") -> Clients:
    return Clients(Endpoint(base_url=base_url), RetryPolicy())


async def test_no_client_has_more_in_flight_than_is_cheap_to_look_through() -> None:
    ours = clients()
    with ExitStack() as stack:
        leased = [stack.enter_context(ours.lease()) for _ in range(2 * CONNECTIONS + 1)]
    counts = Counter(map(id, leased))
    assert sorted(counts.values()) == [1, CONNECTIONS, CONNECTIONS]
    with ours.lease() as again:
        assert again is leased[0], "what is free is used before anything is opened"
    await ours.close()
    assert all(client.is_closed() for client in leased)


def test_what_is_no_url_is_said() -> None:
    with pytest.raises(ProviderError, match="bad base URL") as raised, clients("http://[half").lease():
        pass
    assert raised.value.fatal
