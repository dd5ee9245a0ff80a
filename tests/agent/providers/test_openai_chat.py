"""The real `openai` client against a real server that fails in every way endpoints do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from decimal import Decimal
from typing import Any

import pytest

from kernelwright.agent.providers.endpoint import Endpoint, RetryPolicy
from kernelwright.agent.providers.openai_chat import OpenAIProvider
from kernelwright.agent.providers.prices import PriceTable, TablePrice
from kernelwright.agent.providers.provider_errors import Trouble
from kernelwright.agent.providers.provider_kind import ClientTerms
from kernelwright.agent.providers.rate_limits import RateLimits, Retrying
from kernelwright.agent.records.messages import (
    Completion,
    CompletionRequest,
    Message,
    ProviderError,
    Sampling,
    Usage,
)
from kernelwright.agent.runner.events import event_line
from tests.agent.providers.scripted import OK, Script, ScriptedServer, Step, refused, troubled

pytestmark = pytest.mark.anyio

QUICK = RetryPolicy(timeout_s=60, connect_s=30, max_retries=6, first_wait_s=0.005, longest_wait_s=0.05)
PRICE = TablePrice(models=("good-*",), input=Decimal(3), cached=Decimal("0.3"), output=Decimal(15))


def request(prompt: str = "go", **fields: object) -> CompletionRequest:
    return CompletionRequest.model_validate(
        {
            "model": "good-model",
            "messages": (Message(role="system", content="be good"), Message(role="user", content=prompt)),
            "problem": "level1/01_größe",
            "backend": "cuda",
            **fields,
        }
    )


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def provider(
    server: ScriptedServer,
    *,
    stream: bool = True,
    patience: RetryPolicy = QUICK,
    limits: RateLimits | None = None,
) -> OpenAIProvider:
    endpoint = Endpoint(
        name="test", base_url=server.base_url, api_key="k", key_variable="TEST_KEY", stream=stream
    )
    return OpenAIProvider(
        endpoint, ClientTerms(patience=patience, limits=limits or RateLimits(), prices=PriceTable((PRICE,)))
    )


async def ask(
    script: Script, *requests: CompletionRequest, stream: bool = True, patience: RetryPolicy = QUICK
) -> tuple[list[Completion | ProviderError], ScriptedServer]:
    async with ScriptedServer(script) as server:
        ours = provider(server, stream=stream, patience=patience)
        try:
            asked = [ours.complete(one) for one in requests or (request(),)]
            answers: list[Completion | BaseException] = await asyncio.gather(*asked, return_exceptions=True)
        finally:
            await ours.close()
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, ProviderError):
            raise answer
    return [answer for answer in answers if isinstance(answer, Completion | ProviderError)], server


def steps(*sequence: Step) -> Script:
    return lambda body, tries: sequence[min(tries, len(sequence) - 1)]


def completion(*sequence: Step, stream: bool = True) -> Completion:
    (answer,), _ = run(ask(steps(*sequence), stream=stream))
    assert isinstance(answer, Completion), answer
    return answer


def failure(*sequence: Step, stream: bool = True, patience: RetryPolicy = QUICK) -> ProviderError:
    (answer,), _ = run(ask(steps(*sequence), stream=stream, patience=patience))
    assert isinstance(answer, ProviderError), answer
    assert "\n" not in str(answer)
    return answer


both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@both
def test_a_reply_is_kept_whole(stream: bool) -> None:
    answer = completion(Step(text="code 🙂", reasoning="first, think"), stream=stream)
    assert (answer.text, answer.reasoning, answer.finish_reason) == ("code 🙂", "first, think", "stop")
    assert (answer.provider, answer.model, answer.response_id) == ("test", "good-model-01", "r-1")
    assert answer.usage == Usage(
        prompt_tokens=100, completion_tokens=40, reasoning_tokens=10, cached_tokens=30
    )
    assert answer.cost_usd == 0.000819
    assert answer.retries == 0


@both
def test_the_request_carries_everything(stream: bool) -> None:
    sampling = Sampling(
        temperature=0.5, top_p=0.9, max_tokens=100, seed=7, stop=("END",), extra_body={"top_k": 20}
    )
    _, server = run(ask(steps(OK), request(sampling=sampling, sample=2, turn=1), stream=stream))
    body, headers = server.requests[0], server.headers[0]
    assert body["messages"] == [{"role": "system", "content": "be good"}, {"role": "user", "content": "go"}]
    wanted = {"model": "good-model", "temperature": 0.5, "top_p": 0.9, "max_tokens": 100, "seed": 7}
    assert wanted.items() <= body.items()
    assert (body["stop"], body["top_k"], body.get("stream", False)) == (["END"], 20, stream)
    assert headers["authorization"] == "Bearer k"
    assert headers["x-kernelwright-problem"] == "level1/01_gr%C3%B6%C3%9Fe"
    assert (headers["x-kernelwright-sample"], headers["x-kernelwright-turn"]) == ("2", "1")


def test_defaults_are_left_to_the_endpoint() -> None:
    _, server = run(ask(steps(OK)))
    assert set(server.requests[0]) == {"model", "messages", "stream", "stream_options"}


@both
@pytest.mark.parametrize(
    "trouble",
    [
        refused(429, retry_after="0.02"),
        refused(429, retry_after_ms="10"),
        refused(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
        refused(429),
        refused(500),
        refused(502),
        refused(503, retry_after="0"),
        refused(408),
        refused(400, x_should_retry="true"),
        Step(kind="html", status=502),
        Step(kind="html"),
        Step(kind="drop"),
        Step(kind="cut"),
        Step(kind="empty"),
        Step(kind="malformed"),
        Step(kind="no_choices"),
        Step(kind="error_inside", body={"message": "overloaded", "code": 503}),
    ],
    ids=lambda step: f"{step.kind}{step.status if step.kind in ('status', 'html') else ''}",
)
def test_passing_trouble_is_retried(trouble: Step, stream: bool) -> None:
    if trouble.kind == "empty" and not stream:
        pytest.skip("only a stream can end without a finish reason")
    answer = completion(trouble, trouble, OK, stream=stream)
    assert (answer.text, answer.retries) == (OK.text, 2)


def test_a_reply_that_hangs_is_given_up_and_asked_again() -> None:
    patience = RetryPolicy(timeout_s=4, max_retries=2, first_wait_s=0.01)
    (answer,), server = run(ask(steps(Step(kind="hang"), OK), patience=patience))
    assert isinstance(answer, Completion)
    assert answer.retries == 1
    patience = RetryPolicy(timeout_s=0.3, max_retries=2, first_wait_s=0.01)
    (answer,), server = run(ask(steps(Step(kind="hang")), patience=patience))
    assert isinstance(answer, ProviderError)
    assert "no complete reply in time" in str(answer)
    assert server.tries.total() == 3


def test_trouble_that_stays_is_an_error_that_names_it() -> None:
    assert "error 500" in str(failure(refused(500, "no GPU left")))
    assert "no GPU left (gave up after 7 tries)" in str(failure(refused(500, "no GPU left")))
    assert "before a finish reason" in str(failure(Step(kind="empty")))
    assert "connection to http" in str(failure(Step(kind="cut")))
    assert not failure(Step(kind="cut")).fatal


def test_refusals_for_good_are_not_retried() -> None:
    for status, fatal in ((400, False), (401, True), (403, True), (404, False), (413, False), (422, False)):
        (answer,), server = run(ask(steps(refused(status, "certainly not"))))
        assert isinstance(answer, ProviderError)
        assert "certainly not" in str(answer)
        assert (server.tries.total(), answer.fatal) == (1, fatal)
    assert "set TEST_KEY" in str(failure(refused(401)))


def test_an_unknown_model_is_answered_with_those_the_endpoint_lists() -> None:
    error = failure(refused(404, "The model `x` does not exist", code="model_not_found"))
    assert error.fatal
    assert "this endpoint lists: good-model" in str(error)


def test_being_out_of_credit_is_no_passing_trouble() -> None:
    (answer,), server = run(ask(steps(refused(429, "You exceeded your quota", code="insufficient_quota"))))
    assert isinstance(answer, ProviderError)
    assert answer.fatal
    assert server.tries.total() == 1


def test_an_absurd_wait_is_refused() -> None:
    error = failure(refused(429, retry_after="86400"))
    assert "asks to wait 86400 s" in str(error)


def test_a_wait_is_as_long_as_the_endpoint_asks_for() -> None:
    def wait_s(retry_after_s: float | None) -> float | None:
        trouble = Trouble("no", retry=True, retry_after_s=retry_after_s)
        terms = ClientTerms(patience=QUICK)
        return OpenAIProvider(Endpoint(base_url="http://127.0.0.1:9/v1"), terms)._wait_s(trouble, 1)

    asked = wait_s(7.0)
    assert asked is not None and 7.0 < asked < 7.5
    own = wait_s(None)
    assert own is not None and 0 < own <= QUICK.longest_wait_s
    past = wait_s(0.0)
    assert past is not None and past > 0
    assert wait_s(QUICK.longest_retry_after_s + 1) is None


async def test_an_endpoint_that_is_not_there_is_named() -> None:
    gone = Endpoint(name="gone", base_url="http://127.0.0.1:9/v1")
    ours = OpenAIProvider(gone, ClientTerms(patience=QUICK))
    said = "cannot reach http://127.0.0.1:9/v1: connection refused; check the URL"
    with pytest.raises(ProviderError, match=said) as caught:
        await ours.complete(request())
    await ours.close()
    assert caught.value.fatal


async def test_a_base_url_that_is_none_is_named() -> None:
    ours = OpenAIProvider(Endpoint(base_url="nonsense"), ClientTerms(patience=QUICK))
    with pytest.raises(ProviderError, match="nonsense"):
        await ours.complete(request())
    await ours.close()


@both
def test_the_way_a_reply_ended_is_the_models_business(stream: bool) -> None:
    for reason in ("length", "content_filter", "tool_calls"):
        answer = completion(Step(finish_reason=reason, text="half"), stream=stream)
        assert (answer.finish_reason, answer.text, answer.retries) == (reason, "half", 0)
    refusal = completion(Step(text="", message={"refusal": "I won't", "content": None}), stream=stream)
    assert refusal.text == "I won't"


def test_a_whole_reply_without_a_reason_is_taken_as_it_is() -> None:
    assert completion(Step(finish_reason=None), stream=False).finish_reason == "unknown"


def test_a_stream_cut_behind_its_end_is_whole() -> None:
    answer = completion(Step(kind="cut_behind"))
    assert (answer.text, answer.retries, answer.usage.estimated) == (OK.text, 0, True)


@both
def test_an_endpoint_that_counts_nothing_gets_estimates(stream: bool) -> None:
    answer = completion(Step(usage=None, text="word " * 50), stream=stream)
    assert answer.usage.estimated
    assert 40 <= answer.usage.completion_tokens <= 60


def test_reasoning_under_its_other_names() -> None:
    assert completion(Step(message={"reasoning": "hm"}), stream=False).reasoning == "hm"
    parts = [{"type": "thinking", "thinking": [{"text": "hm"}]}, {"type": "text", "text": "so"}]
    answer = completion(Step(message={"content": parts}), stream=False)
    assert (answer.reasoning, answer.text) == ("hm", "so")


def test_halves_of_a_character_are_joined_or_replaced() -> None:
    for stream in (True, False):
        answer = completion(Step(text="abc\ud83d\ude00 \ud83d!"), stream=stream)
        assert answer.text == "abc🙂 �!".replace("🙂", "\U0001f600")


def test_optional_fields_that_an_endpoint_refuses_are_left_out() -> None:
    def script(body: dict[str, Any], tries: int) -> Step:
        if "stream_options" in body:
            return refused(400, "Unrecognized request argument supplied: stream_options")
        if "max_tokens" in body:
            return refused(400, "Unsupported parameter: use 'max_completion_tokens' instead")
        return OK

    ask_for = request(sampling=Sampling(max_tokens=9))
    (first, second), server = run(ask(script, ask_for, ask_for))
    assert isinstance(first, Completion) and isinstance(second, Completion)
    assert first.retries == second.retries == 0
    assert server.requests[-1]["max_completion_tokens"] == 9


def test_an_endpoint_that_does_not_stream_is_understood() -> None:
    def script(body: dict[str, Any], tries: int) -> Step:
        body["stream"] = False
        return Step(text="all at once")

    (answer,), _ = run(ask(script))
    assert isinstance(answer, Completion)
    assert answer.text == "all at once"


async def test_a_cancelled_request_gives_its_slot_back() -> None:
    async with ScriptedServer(lambda body, tries: Step(delay_s=0.0 if tries else 30.0)) as server:
        ours = provider(server, limits=RateLimits(max_concurrency=1))
        first = asyncio.create_task(ours.complete(request()))
        while not server.in_flight:
            await asyncio.sleep(0.005)
        waiting = asyncio.create_task(ours.complete(request("second")))
        await asyncio.sleep(0)
        assert (ours._limiter.state.in_flight, ours._limiter.state.queued) == (1, 1)
        waiting.cancel()
        first.cancel()
        await asyncio.gather(first, waiting, return_exceptions=True)
        answer = await ours.complete(request())
        assert answer.text == OK.text
        assert (ours._limiter.state.in_flight, ours._limiter.state.queued) == (0, 0)
        await ours.close()


async def test_every_retry_is_told_with_its_reason() -> None:
    told: list[Retrying] = []
    async with ScriptedServer(steps(refused(429, "slow down"), refused(500), OK)) as server:
        ours = OpenAIProvider(
            Endpoint(base_url=server.base_url), ClientTerms(patience=QUICK, on_retry=told.append)
        )
        await ours.complete(request())
        await ours.close()
    assert ["slow down" in told[0].message, "error 500" in told[1].message, len(told)] == [True, True, 2]
    assert (told[0].model, told[0].state.queued, told[0].seconds > 0) == ("good-model", 0, True)
    assert json.loads(event_line(told[0]))["event"] == "Retrying"


async def test_a_refused_provider_asks_less_at_once() -> None:
    def script(body: dict[str, Any], tries: int) -> Step:
        return refused(429) if server.in_flight >= 8 else Step(delay_s=0.3)

    async with ScriptedServer(script) as server:
        ours = provider(
            server, limits=RateLimits(max_concurrency=64), patience=RetryPolicy(30, 5, 60, 0.05, 0.3)
        )
        await asyncio.gather(*(ours.complete(request(str(number))) for number in range(64)))
        assert ours._limiter.state.concurrency < 64
        assert sorted(server.answered.values()) == [1] * 64
        await ours.close()


async def storm(count: int, concurrency: int, *, stream: bool) -> None:
    patience = RetryPolicy(
        timeout_s=300, connect_s=120, max_retries=12, first_wait_s=0.01, longest_wait_s=0.2
    )
    async with ScriptedServer(troubled(seed=1, share=0.3)) as server:
        server.keep_requests = False
        ours = provider(
            server, stream=stream, patience=patience, limits=RateLimits(max_concurrency=concurrency)
        )
        answers = await asyncio.gather(*(ours.complete(request(f"q{number}")) for number in range(count)))
        await ours.close()
    assert [answer.text for answer in answers if answer.text] == [
        f"answer to q{number}" for number, answer in enumerate(answers) if answer.text
    ]
    assert all(answer.text or answer.finish_reason == "content_filter" for answer in answers)
    assert server.answered == {f"q{number}": 1 for number in range(count)}
    assert sum(answer.retries for answer in answers) == server.tries.total() - count
    assert server.most_in_flight <= concurrency


@both
def test_nothing_is_lost_or_counted_twice_in_a_storm(stream: bool) -> None:
    run(storm(1000 if not stream else 400, 64, stream=stream))


@pytest.mark.slow
@both
def test_nothing_is_lost_or_counted_twice_in_a_large_storm(stream: bool) -> None:
    run(storm(5000, 256, stream=stream))
