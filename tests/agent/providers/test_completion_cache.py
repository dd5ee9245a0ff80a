"""A second asking costs nothing; another provider steps in for one that cannot answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kernelwright.agent.providers.completion_cache import CachingProvider, request_key
from kernelwright.agent.providers.fallback import Choice, FallbackProvider
from kernelwright.agent.records.messages import Completion, CompletionRequest, Message, ProviderError

pytestmark = pytest.mark.anyio


class Counting:
    """Answers or fails, and keeps count."""

    def __init__(self, name: str = "inner", error: ProviderError | None = None) -> None:
        self.name = name
        self.error = error
        self.asked: list[CompletionRequest] = []
        self.closed = False

    async def complete(self, request: CompletionRequest) -> Completion:
        self.asked.append(request)
        await asyncio.sleep(0.01)
        if self.error:
            raise self.error
        return Completion(
            provider=self.name,
            model=request.model,
            text=f"{self.name} {len(self.asked)}",
            finish_reason="stop",
            cost_usd=0.5,
            seconds=2.0,
            retries=1,
            completed_at="2026-01-01T00:00:00+00:00",
        )

    async def close(self) -> None:
        self.closed = True


def request(prompt: str = "q", sample: int = 0, model: str = "m") -> CompletionRequest:
    return CompletionRequest(
        model=model, messages=(Message(role="user", content=prompt),), problem="p", backend="b", sample=sample
    )


async def test_a_rerun_costs_nothing(tmp_path: Path) -> None:
    inner = Counting()
    first = await CachingProvider(inner, tmp_path).complete(request())
    again = await CachingProvider(inner, tmp_path).complete(request())
    assert len(inner.asked) == 1
    assert (first.cached, first.cost_usd) == (False, 0.5)
    assert again == first.model_copy(update={"cached": True, "cost_usd": 0.0, "seconds": 0.0, "retries": 0})


async def test_different_questions_are_different(tmp_path: Path) -> None:
    inner = Counting()
    provider = CachingProvider(inner, tmp_path)
    for one in (request(), request("other"), request(sample=1), request(model="n")):
        await provider.complete(one)
    assert len(inner.asked) == 4
    assert request_key(request(), "a") != request_key(request(), "b")


async def test_equal_questions_at_one_time_are_asked_once(tmp_path: Path) -> None:
    inner = Counting()
    provider = CachingProvider(inner, tmp_path)
    replies = await asyncio.gather(*(provider.complete(request()) for _ in range(10)))
    assert len(inner.asked) == 1
    assert {reply.text for reply in replies} == {"inner 1"}
    await provider.close()
    assert inner.closed


async def test_failures_are_not_remembered_and_damage_is_repaired(tmp_path: Path) -> None:
    inner = Counting(error=ProviderError("down"))
    provider = CachingProvider(inner, tmp_path)
    with pytest.raises(ProviderError, match="down"):
        await provider.complete(request())
    inner.error = None
    await provider.complete(request())
    (path,) = tmp_path.glob("*/*.json")
    path.write_text('{"torn')
    assert not (await provider.complete(request())).cached
    assert (await provider.complete(request())).cached


async def test_the_next_provider_steps_in() -> None:
    broken, spare = Counting("broken", ProviderError("busy")), Counting("spare")
    provider = FallbackProvider([Choice(broken), Choice(spare, model="spare-model")])
    assert provider.name == "broken,spare"
    for _ in range(2):
        reply = await provider.complete(request())
        assert (reply.provider, reply.model) == ("spare", "spare-model")
    assert len(broken.asked) == 2
    await provider.close()
    assert broken.closed and spare.closed


async def test_a_provider_that_failed_for_good_is_not_asked_again() -> None:
    dead, spare = Counting("dead", ProviderError("bad key", fatal=True)), Counting("spare")
    provider = FallbackProvider([Choice(dead), Choice(spare)])
    for _ in range(3):
        await provider.complete(request())
    assert len(dead.asked) == 1
    await provider.complete(request().model_copy(update={"model": "another"}))
    assert len(dead.asked) == 2, "another model may be known there"
    spare.error = ProviderError("busy")
    with pytest.raises(ProviderError, match="bad key; then busy") as caught:
        await provider.complete(request())
    assert not caught.value.fatal
    spare.error = ProviderError("no credit", fatal=True)
    with pytest.raises(ProviderError, match="bad key; then no credit") as caught:
        await provider.complete(request())
    assert caught.value.fatal


async def test_a_reply_that_the_same_run_paid_for_keeps_its_price(tmp_path: Path) -> None:
    inner = Counting()
    first = await CachingProvider(inner, tmp_path, run="a").complete(request())
    assert await CachingProvider(inner, tmp_path, run="a", fresh=True).complete(request()) == first
    assert (await CachingProvider(inner, tmp_path, run="b").complete(request())).cached
    assert len(inner.asked) == 1


async def test_asking_afresh_replaces_what_was_remembered_and_places_are_apart(tmp_path: Path) -> None:
    inner = Counting()
    await CachingProvider(inner, tmp_path, run="a").complete(request())
    anew = await CachingProvider(inner, tmp_path, run="b", fresh=True).complete(request())
    assert (anew.text, anew.cached) == ("inner 2", False)
    assert (await CachingProvider(inner, tmp_path, run="c").complete(request())).text == "inner 2"
    elsewhere = await CachingProvider(inner, tmp_path, place="http://other").complete(request())
    assert elsewhere.text == "inner 3"


async def test_a_reply_that_cannot_be_remembered_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    provider = CachingProvider(Counting(), tmp_path / "file")
    assert (await provider.complete(request())).text == "inner 1"
