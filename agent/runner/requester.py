"""Sends requests to models within the budgets and records each reply on arrival."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kernelwright.agent.archive import ExtractedReply, RunLog, cost_of
from kernelwright.agent.extraction.extract import extract
from kernelwright.agent.records.attempt_log import Attempt, AttemptKey, ProviderFailed, RunEnd
from kernelwright.agent.records.budgets import BudgetReachedError, Cost, Ledger
from kernelwright.agent.records.messages import (
    Completion,
    CompletionRequest,
    Message,
    Provider,
    ProviderError,
)
from kernelwright.agent.records.provenance import now
from kernelwright.agent.records.tokens import estimate_tokens
from kernelwright.agent.runner.events import Asking, BudgetReached, Event, ProviderTrouble, Replied
from kernelwright.agent.runner.plan import ModelChoice
from kernelwright.agent.runner.policy import ESTIMATE_MARGIN, LONGEST_MESSAGE, PROVIDER_STRIKES
from kernelwright.agent.runner.shutdown import StopConditions
from kernelwright.agent.strategies import AssignmentSpentError, NoAttemptError, Question


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A question with its model and the budget of its assignment."""

    key: AttemptKey
    model: ModelChoice
    question: Question
    ledger: Ledger


@dataclass(eq=False)
class Requester:
    """Sends requests to the providers. Lives in one event loop."""

    log: RunLog
    providers: Mapping[str, Provider] | None
    ledger: Ledger
    """Of the whole run."""
    stop: StopConditions
    emit: Callable[[Event], None]
    slots: asyncio.Semaphore
    """Places for requests that are sent concurrently."""
    failures: int = 0
    """Questions without a reply."""
    missing: int = 0
    """Questions not sent because the run has no providers."""
    in_flight: int = 0
    _strikes: Counter[str] = field(default_factory=Counter)
    _gone: dict[str, str] = field(default_factory=dict)
    """Model to the reason it gets no more requests."""

    def recall(self, asked: PendingQuestion) -> Attempt | None:
        """Return the attempt if an earlier process recorded its reply."""
        attempt = self.log.find(asked.key.attempt)
        if attempt is not None:
            _book(asked.ledger, attempt)
            self.emit(Replied.to(attempt, recorded=True))
        return attempt

    async def ask(self, asked: PendingQuestion) -> Attempt:
        """Request a reply, record it and emit its event.

        Raises NoAttemptError without a reply, and OSError if the log cannot be written.
        """
        request = request_of(asked.key, asked.model, asked.question.compose())
        holds = await self._admit(asked, _bound_tokens(request))
        try:
            async with self.slots:
                self.refuse_if_over(asked.model.name)
                completion = await self._complete(asked, request)
            attempt = await asyncio.to_thread(self._record, asked, request, completion)
            self.stop.set_if_full(self.log)
            for ledger, _ in holds:
                _book(ledger, attempt)
        finally:
            for ledger, hold in holds:
                ledger.release(hold)
        self.emit(Replied.to(attempt, recorded=False))
        return attempt

    def refuse_if_over(self, model: str) -> None:
        """Raise NoAttemptError if the run stops, the model failed too often, or there are no providers."""
        if self.providers is None:
            self.missing += 1
            raise NoAttemptError("no provider to ask")
        if self.stop.is_asking_over:
            raise NoAttemptError(self.stop.reason)
        if model in self._gone:
            raise NoAttemptError(self._gone[model])

    async def _admit(self, asked: PendingQuestion, bound_tokens: int | None) -> list[tuple[Ledger, Cost]]:
        try:
            own = await asked.ledger.admit(bound_tokens)
        except BudgetReachedError as error:
            raise AssignmentSpentError(str(error)) from None
        try:
            return [(asked.ledger, own), (self.ledger, await self.ledger.admit(bound_tokens))]
        except BudgetReachedError as error:
            asked.ledger.release(own)
            if self.stop.set(RunEnd.BUDGET, str(error)):
                self.emit(BudgetReached(what=str(error)))
            raise NoAttemptError(str(error)) from None

    async def _complete(self, asked: PendingQuestion, request: CompletionRequest) -> Completion:
        name = asked.model.name
        self.emit(Asking(of=asked.key))
        self.in_flight += 1
        try:
            completion = await (self.providers or {})[name].complete(request)
        except ProviderError as error:
            self.failures += 1
            message = str(error)[:LONGEST_MESSAGE]
            self._strike(name, error.fatal, message)
            line = ProviderFailed(at=now(), attempt=asked.key.attempt, key=asked.key, message=message)
            await asyncio.to_thread(self.log.append, line)
            self.emit(ProviderTrouble(of=asked.key, message=message, for_good=name in self._gone))
            if (self.providers or {}).keys() <= self._gone.keys():
                self.stop.set(RunEnd.BROKEN, "; ".join(dict.fromkeys(self._gone.values())))
            raise NoAttemptError(message) from None
        finally:
            self.in_flight -= 1
        self._strikes[name] = 0
        self._gone.pop(name, None)
        return completion

    def _record(self, asked: PendingQuestion, request: CompletionRequest, completion: Completion) -> Attempt:
        shown = {"parents": asked.question.parents, "exemplars": asked.question.exemplars}
        return self.log.record_completion(asked.key, extracted(asked.model, request, completion, **shown))

    def _strike(self, model: str, for_good: bool, message: str) -> None:
        self._strikes[model] += 1
        if for_good:
            self._gone[model] = message
        elif self._strikes[model] >= PROVIDER_STRIKES:
            self._gone[model] = f"no reply {PROVIDER_STRIKES} times in a row: {message}"


def request_of(key: AttemptKey, model: ModelChoice, messages: tuple[Message, ...]) -> CompletionRequest:
    """Build the request of an attempt."""
    sampling = model.sampling
    if sampling.seed is not None:
        # One seed for all would make every independent sample the same reply.
        sampling = sampling.model_copy(update={"seed": sampling.seed + key.sample})
    return CompletionRequest(
        model=model.name,
        messages=messages,
        sampling=sampling,
        problem=key.problem,
        backend=key.backend,
        sample=key.sample,
        turn=key.turn,
    )


def extracted(
    model: ModelChoice,
    request: CompletionRequest,
    completion: Completion,
    *,
    exemplars: tuple[str, ...],
    parents: tuple[str, ...] = (),
) -> ExtractedReply:
    """A reply with the candidate in it, if there is one."""
    return ExtractedReply(
        request=request,
        completion=completion,
        extraction=extract(
            completion.text, finish_reason=completion.finish_reason, reasoning=completion.reasoning
        ),
        parents=parents,
        exemplars=exemplars,
        license=model.license,
        origin=model.origin,
    )


def _book(ledger: Ledger, attempt: Attempt) -> None:
    ledger.book(cost_of(attempt.completion), typical=not attempt.completion.cached)


def _bound_tokens(request: CompletionRequest) -> int | None:
    longest = request.sampling.max_tokens
    if longest is None:
        return None
    prompt = sum(estimate_tokens(message.content) for message in request.messages)
    return longest + int(prompt * ESTIMATE_MARGIN)
