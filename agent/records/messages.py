"""Requests to models, their completions, and the protocol of a provider's client."""

from __future__ import annotations

from typing import Literal, Protocol

from pydantic import Field, JsonValue

from kernelwright.evaluator import Record


class Message(Record):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Sampling(Record):
    """Sampling parameters; None leaves the endpoint's default."""

    temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature of the model."""
    top_p: float | None = None
    """Share of probability that tokens are sampled from."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of a reply, thoughts included."""
    seed: int | None = None
    """Sent with a sample's number added, so that samples differ."""
    stop: tuple[str, ...] = ()
    """Texts that end a reply."""
    extra_body: dict[str, JsonValue] = {}
    """Sent as further fields of the request body, for endpoint-specific options."""


class CompletionRequest(Record):
    """One question to a model."""

    model: str
    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    problem: str
    """Problem id; sent as a header so that a replay server can find its recording."""
    backend: str
    sample: int = 0
    """Number of the independent sample of the problem."""
    turn: int = 0
    """Turn of the conversation, from 0."""


class Usage(Record):
    """Tokens as the endpoint counted them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    """Part of `completion_tokens`."""
    cached_tokens: int = 0
    """Prompt tokens the endpoint had cached; part of `prompt_tokens`."""
    estimated: bool = False
    """True when the endpoint counted nothing and these are estimates."""


class Completion(Record):
    """One reply, as it arrived."""

    provider: str
    model: str
    """The model the endpoint reports."""
    text: str
    reasoning: str = ""
    """`reasoning_content`, if the endpoint sends it separately."""
    finish_reason: str
    """As reported by the endpoint; `unknown` if a complete reply has none."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """None when the price table does not know the model."""
    seconds: float
    """Wall time from the first try to the end of the reply, retries included."""
    retries: int = 0
    response_id: str = ""
    completed_at: str
    """UTC, ISO 8601."""
    cached: bool = False
    """True when it came from the completion cache: the usage is of the first request, the cost is 0."""


class ProviderError(Exception):
    """A provider sent no reply after its retries; never scored as the model's failure."""

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal
        """True when no other request for this model can succeed either: a bad key, an unknown model."""


class Provider(Protocol):
    """A client that completes prompts."""

    @property
    def name(self) -> str:
        """The provider's name in records."""

    async def complete(self, request: CompletionRequest) -> Completion:
        """Complete one request; cancellation stops it.

        Raises:
            ProviderError: no reply after the retries, or a permanent refusal (bad key, unknown model).
        """

    async def close(self) -> None:
        """Release connections."""
