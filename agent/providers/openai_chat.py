"""Completions from any OpenAI-compatible endpoint, through the `openai` SDK.

All retrying happens here, on top of the SDK with its own retries turned off: they would hide 429s from the
limiter, and know nothing of cut streams and malformed bodies. A reply is returned once, whole, or not at all.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from kernelwright.agent.providers.chat_stream import Reply, StreamReader, read_reply
from kernelwright.agent.providers.client_pool import Clients
from kernelwright.agent.providers.endpoint import Endpoint
from kernelwright.agent.providers.policy import EXPECTED_REPLY_TOKENS, TRIES_TO_REACH
from kernelwright.agent.providers.prices import PriceTable
from kernelwright.agent.providers.provider_errors import Trouble, diagnose, failures
from kernelwright.agent.providers.provider_kind import ClientTerms
from kernelwright.agent.providers.rate_limits import Limiter, Retrying, Slot
from kernelwright.agent.records.messages import Completion, CompletionRequest, ProviderError
from kernelwright.agent.records.provenance import now
from kernelwright.agent.records.tokens import estimate_tokens, estimate_usage

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI


OTHER_BOUND: Final = "max_completion_tokens"
"""Name of `max_tokens` for OpenAI's reasoning models, which refuse the other."""


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Optional fields that a model's endpoint takes; learnt from its refusals."""

    include_usage: bool = True
    max_tokens: str = "max_tokens"


class OpenAIProvider:
    """Completes prompts at one endpoint. One instance belongs to one event loop; close it there."""

    def __init__(self, endpoint: Endpoint, terms: ClientTerms) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint
        self._terms = terms
        self._patience = terms.patience
        self._limiter = Limiter(terms.limits)
        self._clients = Clients(endpoint, terms.patience)
        self._dialects: dict[str, _Dialect] = {}
        self._replies = 0

    async def complete(self, request: CompletionRequest) -> Completion:
        started = time.monotonic()
        prompt_tokens = sum(estimate_tokens(message.content) for message in request.messages)
        expected = prompt_tokens + (request.sampling.max_tokens or EXPECTED_REPLY_TOKENS)
        for tries in range(self._patience.max_retries + 1):
            async with self._limiter.slot(expected, urgent=tries > 0) as slot:
                outcome = await self._try(request, slot)
            if isinstance(outcome, Reply):
                self._replies += 1
                completion = completion_of(request, outcome, self._endpoint, self._terms.prices)
                spent = {"seconds": time.monotonic() - started, "retries": tries}
                return completion.model_copy(update=spent)
            wait_s = self._wait_s(outcome, tries)
            if wait_s is None:
                raise await self._give_up(outcome, tries, request.model)
            self._tell(request, outcome, wait_s)
            await asyncio.sleep(wait_s)
        raise AssertionError("unreachable: the last try returns or raises")

    async def models(self) -> tuple[str, ...]:
        """Names of the models the endpoint lists; raises ProviderError where it does not answer."""
        with self._clients.lease_once() as client:
            page = await client.models.list(timeout=self._patience.connect_s)
            return tuple(str(model.id) for model in page.data)

    async def close(self) -> None:
        await self._clients.close()

    def _tell(self, request: CompletionRequest, trouble: Trouble, wait_s: float) -> None:
        if self._terms.on_retry is not None:
            self._terms.on_retry(
                Retrying(
                    provider=self.name,
                    model=request.model,
                    problem=request.problem,
                    message=trouble.message,
                    seconds=wait_s,
                    state=self._limiter.state,
                )
            )

    async def _try(self, request: CompletionRequest, slot: Slot) -> Reply | Trouble:
        import openai

        while True:
            dialect = self._dialects.get(request.model, _Dialect())
            try:
                with self._clients.lease() as client:
                    async with asyncio.timeout(self._patience.timeout_s):
                        reply = await self._ask(client, request, dialect)
            except failures() as error:
                if isinstance(error, openai.APIStatusError) and self._learn(request.model, dialect, error):
                    continue
                trouble = diagnose(error, self._endpoint, request.model)
                if trouble.limited:
                    slot.refused(trouble.retry_after_s)
                return trouble
            slot.served(reply.usage.prompt_tokens + reply.usage.completion_tokens if reply.usage else 0)
            return reply

    async def _ask(self, client: AsyncOpenAI, request: CompletionRequest, dialect: _Dialect) -> Reply:
        chat = client.chat.completions
        body = chat_body(request, max_tokens=dialect.max_tokens)
        body |= {"extra_body": request.sampling.extra_body, "extra_headers": _headers(request)}
        body["stream"] = self._endpoint.stream
        if self._endpoint.stream and dialect.include_usage:
            body["stream_options"] = {"include_usage": True}
        reader = StreamReader()
        async with chat.with_streaming_response.create(**body) as reply:
            if not self._endpoint.stream or "json" in reply.headers.get("content-type", ""):
                return read_reply(json.loads(await reply.read()))
            try:
                async for data in reply.iter_bytes():
                    reader.feed(data)
            except failures():
                # A finished reply is paid for and returned, even if the connection broke after it.
                if not reader.is_finished:
                    raise
        return reader.finish()

    def _learn(self, model: str, used: _Dialect, error: APIStatusError) -> bool:
        said = f"{error.message} {error.param or ''}"
        if error.status_code not in (400, 422):
            return False
        if used.include_usage and "stream_options" in said:
            learnt = replace(used, include_usage=False)
        elif used.max_tokens == "max_tokens" and OTHER_BOUND in said:
            learnt = replace(used, max_tokens=OTHER_BOUND)
        else:
            return False
        self._dialects[model] = learnt
        return True

    def _wait_s(self, trouble: Trouble, tries: int) -> float | None:
        patience = self._patience
        asked = trouble.retry_after_s
        never_there = trouble.unreachable and not self._replies and tries >= TRIES_TO_REACH - 1
        if not trouble.retry or tries >= patience.max_retries or never_there:
            return None
        if asked is not None and asked > patience.longest_retry_after_s:
            return None
        own = min(patience.longest_wait_s, patience.first_wait_s * 2.0**tries) * random.uniform(0.5, 1.0)
        if asked is None:
            return own
        told = asked + min(own, 0.25 * asked + 0.05)
        # Less than a second, or a date that is past by our clock, would use up all tries in a moment.
        return max(own, told) if asked < 1 else told

    async def _give_up(self, trouble: Trouble, tries: int, model: str) -> ProviderError:
        message = trouble.message
        if trouble.unknown_model:
            message += await self._known_models(model)
        if trouble.retry and trouble.retry_after_s and tries < self._patience.max_retries:
            message += f"; it asks to wait {trouble.retry_after_s:.0f} s"
        elif tries:
            message += f" (gave up after {tries + 1} tries)"
        never_there = trouble.unreachable and not self._replies
        return ProviderError(message, fatal=trouble.fatal or trouble.unknown_model or never_there)

    async def _known_models(self, model: str) -> str:
        try:
            names = await self.models()
        except ProviderError:
            return ""
        close = get_close_matches(model, names, n=8, cutoff=0.0)
        return f"; this endpoint lists: {', '.join(close)}" if close else ""


def completion_of(
    request: CompletionRequest, reply: Reply, endpoint: Endpoint, prices: PriceTable, *, batch: bool = False
) -> Completion:
    """A reply with its price; with estimates where the endpoint counted no tokens."""
    prompt = (message.content for message in request.messages)
    usage = reply.usage or estimate_usage(prompt, reply.text, reply.reasoning)
    price = prices.find(reply.model, request.model, url=endpoint.base_url)
    return Completion(
        provider=endpoint.name,
        model=reply.model or request.model,
        text=reply.text,
        reasoning=reply.reasoning,
        finish_reason=reply.finish_reason,
        usage=usage,
        cost_usd=None if price is None else float(price.cost_usd(usage, batch=batch)),
        seconds=0.0,
        response_id=reply.response_id,
        completed_at=now(),
    )


def chat_body(request: CompletionRequest, *, max_tokens: str = "max_tokens") -> dict[str, Any]:  # Any: JSON
    """The request as a chat-completions body, without anything about streaming or transport."""
    sampling = request.sampling
    optional = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        max_tokens: sampling.max_tokens,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
    }
    return {
        "model": request.model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        **{name: value for name, value in optional.items() if value is not None},
    }


def _headers(request: CompletionRequest) -> dict[str, str]:
    return {
        "X-Kernelwright-Problem": quote(request.problem),
        "X-Kernelwright-Backend": quote(request.backend),
        "X-Kernelwright-Sample": str(request.sample),
        "X-Kernelwright-Turn": str(request.turn),
    }
