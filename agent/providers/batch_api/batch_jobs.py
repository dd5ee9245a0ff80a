"""Completions through the OpenAI Batch API: cheaper, and answered within a day.

Everything is written down before it is done (`batch_state`), so a process may be killed at any moment and
another goes on days later: nothing is asked twice, and what an expired or half-failed batch left open goes
into the next.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kernelwright.agent.providers.batch_api.batch_state import (
    BatchEntry,
    BatchFolder,
    BatchStage,
    Queued,
    Result,
)
from kernelwright.agent.providers.chat_stream import MalformedReply, read_reply
from kernelwright.agent.providers.client_pool import Clients
from kernelwright.agent.providers.completion_cache import request_key
from kernelwright.agent.providers.endpoint import Endpoint, RetryPolicy
from kernelwright.agent.providers.openai_chat import OTHER_BOUND, chat_body, completion_of
from kernelwright.agent.providers.prices import PriceTable
from kernelwright.agent.providers.provider_errors import RETRIED
from kernelwright.agent.records.messages import CompletionRequest, ProviderError

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import Batch

METADATA: Final = "kernelwright"
_ENDED: Final = frozenset({"completed", "expired", "cancelled", "failed"})
_LATER: Final = frozenset({"token_limit_exceeded", "rate_limit_exceeded"})
"""Codes of batches that failed as a whole, but may be created again later."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Bounds of a batch's size and of waiting."""

    max_requests: int = 50_000
    max_bytes: int = 190_000_000
    """Of one input file; the endpoint's limit is 200 MB."""
    max_rounds: int = 4
    """Batches a request may go into before it counts as unanswerable."""
    max_retries: int = 5
    """Of one call to the endpoint, by the SDK; nothing is paid twice by these."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """Progress of the bulk jobs of a folder."""

    requests: int
    answered: int
    failed: int
    statuses: tuple[str, ...]
    """The endpoint's status of each batch under way."""

    @property
    def is_done(self) -> bool:
        """True where every request has its answer, or never will."""
        return self.answered + self.failed == self.requests


class BatchJobs:
    """The bulk jobs of one folder at one endpoint: `submit`, then `advance` until it is done."""

    def __init__(
        self,
        folder: Path,
        endpoint: Endpoint,
        *,
        limits: BatchLimits = BatchLimits(),
        prices: PriceTable = PriceTable(),  # noqa: B008 (frozen)
        key: Callable[[CompletionRequest], str] | None = None,
    ) -> None:
        self._key = key or (lambda request: request_key(request, endpoint.name)[:40])
        self._endpoint = endpoint
        self._limits = limits
        self._prices = prices
        self._clients = Clients(endpoint, RetryPolicy(), sdk_retries=limits.max_retries)
        try:
            self._state = BatchFolder(folder)
        except (OSError, ValueError) as error:
            raise ProviderError(f"cannot read the bulk jobs in {folder}: {error}", fatal=True) from error

    def submit(self, requests: Iterable[CompletionRequest]) -> None:
        """Take requests on; those already known are not taken twice. `advance` sends them."""
        self._state.add_requests(Queued(key=self._key(request), request=request) for request in requests)

    @property
    def keys(self) -> tuple[str, ...]:
        """The requests taken on so far, by the names they have in batches."""
        return tuple(self._state.requests)

    def results(self) -> list[tuple[CompletionRequest, Result]]:
        """Every request that has a result, in the order of submission."""
        found = self._state.results
        return [(request, found[key]) for key, request in self._state.requests.items() if key in found]

    @property
    def progress(self) -> BatchProgress:
        answered = sum(result.completion is not None for result in self._state.results.values())
        batches = self._state.batches.values()
        return BatchProgress(
            requests=len(self._state.requests),
            answered=answered,
            failed=len(self._state.results) - answered,
            statuses=tuple(batch.status for batch in batches if batch.stage is BatchStage.RUNNING),
        )

    async def advance(self) -> BatchProgress:
        """Do what can be done now: create batches, ask how they are, collect those that ended.

        Raises:
            ProviderError: the endpoint cannot be reached, or refuses batches for good.
        """
        self._plan()
        for name in tuple(self._state.batches):
            batch = self._state.batches[name]
            if batch.stage in (BatchStage.PLANNED, BatchStage.CREATING):
                batch = await self._create(batch)
            if batch.stage is BatchStage.RUNNING:
                await self._look_after(batch)
        return self.progress

    async def close(self) -> None:
        """Release connections; what was submitted stays submitted."""
        await self._clients.close()

    def _plan(self) -> None:
        part: list[str] = []
        size = 0
        tired: list[Result] = []
        rounds = self._state.rounds()
        for key in self._state.open_keys():
            if rounds[key] >= self._limits.max_rounds:
                tired.append(Result(key=key, error=f"no answer in {self._limits.max_rounds} batches"))
                continue
            length = len(self._line(key, self._bound(key)))
            full = len(part) >= self._limits.max_requests or size + length > self._limits.max_bytes
            other_model = part and self._model(part[0]) != self._model(key)
            if full or other_model:
                self._put(part)
                part, size = [], 0
            part.append(key)
            size += length
        self._state.add_results(tired)
        self._put(part)

    def _put(self, part: list[str]) -> None:
        if part:
            self._state.put(BatchEntry(name=uuid.uuid4().hex, keys=tuple(part), bound=self._bound(part[0])))

    def _model(self, key: str) -> str:
        return self._state.requests[key].model

    def _bound(self, key: str) -> str:
        model = self._model(key)
        earlier = (batch for batch in self._state.batches.values() if batch.bound_refused)
        renamed = any(self._model(batch.keys[0]) == model for batch in earlier)
        return OTHER_BOUND if renamed else "max_tokens"

    def _line(self, key: str, bound: str) -> bytes:
        request = self._state.requests[key]
        body = {**chat_body(request, max_tokens=bound), **request.sampling.extra_body}
        line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
        return json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    async def _create(self, batch: BatchEntry) -> BatchEntry:
        with self._clients.lease_once() as client:
            if batch.stage is BatchStage.CREATING:
                lost = await self._find(client, batch.name)
                if lost is not None:
                    return self._running(batch, lost)
            content = b"".join(self._line(key, batch.bound) for key in batch.keys)
            uploaded = await client.files.create(file=(f"{batch.name}.jsonl", content), purpose="batch")
            batch = self._state.put(
                batch.model_copy(update={"stage": BatchStage.CREATING, "file_id": uploaded.id})
            )
            created = await client.batches.create(
                input_file_id=uploaded.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={METADATA: batch.name},
            )
        return self._running(batch, created)

    async def _find(self, client: AsyncOpenAI, name: str) -> Batch | None:
        """The batch with our name, created by a process that did not live to write its id down."""
        async for one in client.batches.list(limit=100):
            if (one.metadata or {}).get(METADATA) == name:
                return one
        return None

    def _running(self, batch: BatchEntry, at_endpoint: Batch) -> BatchEntry:
        known = {"batch_id": at_endpoint.id, "status": str(at_endpoint.status), "stage": BatchStage.RUNNING}
        return self._state.put(batch.model_copy(update=known))

    async def _look_after(self, batch: BatchEntry) -> None:
        with self._clients.lease_once() as client:
            now = await client.batches.retrieve(batch.batch_id)
            batch = self._running(batch, now)
            if batch.status not in _ENDED:
                return
            for file_id in (now.output_file_id, now.error_file_id):
                if file_id:
                    content = await client.files.content(file_id)
                    batch = self._collect(batch, content.content)
        problem = _problem(now)
        self._state.put(batch.model_copy(update={"stage": BatchStage.COLLECTED, "problem": problem}))
        if batch.status == "failed" and not any(code in problem for code in _LATER):
            raise ProviderError(
                f"{self._endpoint.name}: batch {batch.batch_id} failed: {problem}", fatal=True
            )

    def _collect(self, batch: BatchEntry, content: bytes) -> BatchEntry:
        own = set(batch.keys)
        bound_refused = batch.bound_refused
        results: list[Result] = []
        for line in content.splitlines():
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            key = answer.get("custom_id") if isinstance(answer, dict) else None
            if key not in own:
                continue
            if batch.bound != OTHER_BOUND and _asks_for_other_bound(answer):
                bound_refused = True
                continue
            result = self._read(key, answer)
            if result is not None:
                results.append(result)
        self._state.add_results(results)
        return batch.model_copy(update={"bound_refused": bound_refused})

    def _read(self, key: str, answer: Mapping[str, Any]) -> Result | None:  # Any: JSON
        response = answer.get("response") or {}
        status = response.get("status_code", 0)
        if status == 200:
            try:
                reply = read_reply(response.get("body"))
            except MalformedReply:
                return None
            request = self._state.requests[key]
            completion = completion_of(request, reply, self._endpoint, self._prices, batch=True)
            return Result(key=key, completion=completion)
        if 400 <= status < 500 and status not in RETRIED:
            return Result(key=key, error=f"the request was refused ({status}): {_said(answer)}")
        return None


def _said(answer: Mapping[str, Any]) -> str:  # Any: JSON
    body = (answer.get("response") or {}).get("body") or {}
    return str((body.get("error") or {}).get("message", "no reason given"))


def _asks_for_other_bound(answer: Mapping[str, Any]) -> bool:  # Any: JSON
    status = (answer.get("response") or {}).get("status_code")
    return status in (400, 422) and OTHER_BOUND in _said(answer)


def _problem(batch: Batch) -> str:
    errors = (batch.errors.data if batch.errors else None) or []
    return "; ".join(f"{error.code}: {error.message}" for error in errors[:3])
