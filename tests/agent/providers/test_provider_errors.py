"""Messages about failed tries, and what they leave out."""

from __future__ import annotations

import asyncio

import pytest

from kernelwright.agent.providers.endpoint import Endpoint, RetryPolicy
from kernelwright.agent.providers.openai_chat import OpenAIProvider
from kernelwright.agent.providers.provider_kind import ClientTerms
from kernelwright.agent.records.messages import CompletionRequest, Message, ProviderError
from tests.agent.providers.scripted import OK, ScriptedServer, Step, refused

KEY = "sk-secret-0123456789"
QUESTION = CompletionRequest(
    model="m", messages=(Message(role="user", content="go"),), problem="p", backend="cpp"
)


def failure(step: Step, *, stream: bool = True) -> str:
    async def scenario() -> str:
        async with ScriptedServer(lambda _body, _tries: step) as server:
            endpoint = Endpoint(base_url=server.base_url, api_key=KEY, stream=stream)
            ours = OpenAIProvider(endpoint, ClientTerms(patience=RetryPolicy(max_retries=0)))
            with pytest.raises(ProviderError) as caught:
                await ours.complete(QUESTION)
            await ours.close()
        return str(caught.value)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    "step",
    [
        refused(401, f"Incorrect API key provided: {KEY}."),
        refused(500, f"{'x' * 262} Authorization: Bearer {KEY}"),
        Step(kind="error_inside", body={"message": f"no such key: {KEY}", "code": 401}),
        Step(kind="error_inside", body={"headers": {"Authorization": f"Bearer {KEY}"}}),
    ],
)
def test_a_key_that_the_endpoint_repeats_is_not_repeated(step: Step) -> None:
    message = failure(step)
    assert KEY[:10] not in message
    assert "(the key)" in message


@pytest.mark.parametrize("stream", [True, False])
def test_bottomless_json_is_passing_trouble(stream: bool) -> None:
    assert "unreadable reply: RecursionError" in failure(Step(kind="deep"), stream=stream)


def test_being_told_to_wait_for_nothing_does_not_use_up_the_tries() -> None:
    async def seconds(retry_after: str) -> float:
        script = lambda _body, tries: refused(429, retry_after=retry_after) if tries < 3 else OK  # noqa: E731
        async with ScriptedServer(script) as server:
            endpoint = Endpoint(base_url=server.base_url)
            ours = OpenAIProvider(endpoint, ClientTerms(patience=RetryPolicy(first_wait_s=0.2)))
            completion = await ours.complete(QUESTION)
            await ours.close()
        return completion.seconds

    for told in ("0", "Wed, 21 Oct 2015 07:28:00 GMT"):
        assert asyncio.run(seconds(told)) > 0.5 * (0.2 + 0.4 + 0.8)
