"""Whom a run asks: a live endpoint, or the replay server, started here when there is no key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kernelwright.agent.cli.terminal.failures import Usage, say
from kernelwright.agent.prompting.prompts import installed_prompts
from kernelwright.agent.providers.completion_cache import CachingProvider
from kernelwright.agent.providers.endpoint import Endpoint, Patience
from kernelwright.agent.providers.fallback import Choice, FallbackProvider
from kernelwright.agent.providers.openai_chat import OpenAIProvider
from kernelwright.agent.providers.provider_state import Retrying
from kernelwright.agent.providers.rate_limits import RateLimits
from kernelwright.agent.providers.replay.recording_provider import RecordingProvider
from kernelwright.agent.providers.replay.replay_server import MODEL as REPLAY_MODEL
from kernelwright.agent.providers.replay.replay_server import ReplayServer
from kernelwright.agent.records.messages import Provider, Sampling
from kernelwright.agent.runner import ModelChoice
from kernelwright.agent.setup.cost_limits import prices_of
from kernelwright.agent.setup.credentials import api_key, base_url, key_in, key_variable
from kernelwright.agent.setup.run_settings import EndpointChoice, ProviderKind, RunSettings

RETRIES_BEFORE_FALLBACK: Final = 4
"""Retries at an endpoint that has another behind it: half of what a lone one gets."""

OWNED: Final = ("model", "messages", "stream", "stream_options")
"""Fields of a request's body that no `extra_body` may replace."""

_FALLBACK_FIELDS: Final = tuple(EndpointChoice.model_fields)


@dataclass(frozen=True, slots=True)
class Place:
    """An endpoint, and what it calls the model."""

    endpoint: Endpoint
    model: str | None = None
    """None: what the run calls it."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Whom to ask."""

    first: Mapping[str, Place]
    """By model."""
    spares: tuple[Place, ...] = ()
    """For when the first cannot answer, in their order."""


@dataclass(frozen=True, slots=True)
class Remembering:
    """Where replies are kept for next time."""

    completions: Path | None
    """Folder of the completion cache; None keeps none."""
    record: Path | None
    """Folder that every reply is also written to, for replay."""
    run: str


def parse_fallbacks(texts: Sequence[str]) -> list[dict[str, str]]:
    """The endpoints that `--fallback` names, as fields of `EndpointChoice`.

    Raises:
        Usage: not in the form that the option takes.
    """
    return [_parse_fallback(text) for text in texts]


def resolve(settings: RunSettings) -> RunSettings:
    """The settings with whom to ask made explicit, so that a resumed run asks the same.

    Raises:
        Usage: no model is named, what is named as an address is none, or `extra_body` holds what it must not.
    """
    _refuse_what_requests_own(settings)
    address = settings.base_url or base_url()
    is_live = bool(api_key() or address or settings.endpoints)
    live = settings.provider or (ProviderKind.OPENAI if is_live else ProviderKind.REPLAY)
    if live is ProviderKind.REPLAY:
        models = settings.models or (REPLAY_MODEL,)
        if settings.fallbacks:
            raise Usage("--fallback needs a live endpoint before it: set a key, or --base-url")
        return settings.model_copy(update={"provider": live, "models": models})
    if address is not None and not re.match(r"https?://[^/\s]+", address):
        raise Usage(f"{address!r} is no base URL; an example: http://localhost:8000/v1")
    if not settings.models:
        raise Usage("which model? --model NAME; it may be repeated")
    unasked = [name for name in settings.endpoints if name not in settings.models]
    if unasked:
        raise Usage(
            f"endpoints.{unasked[0]}: no such model is asked; --model names {', '.join(settings.models)}"
        )
    return settings.model_copy(update={"provider": live})


def models_of(settings: RunSettings) -> tuple[ModelChoice, ...]:
    """The models to ask, each once."""
    return tuple(
        ModelChoice(
            name=name,
            sampling=settings.sampling,
            license=settings.licenses.get(name),
            origin="recording" if settings.provider is ProviderKind.REPLAY else "",
        )
        for name in dict.fromkeys(settings.models)
    )


def open_providers(
    settings: RunSettings,
    endpoints: Endpoints,
    remembering: Remembering,
    on_retry: Callable[[Retrying], None],
) -> dict[str, Provider]:
    """A client for every model; those at one endpoint share one.

    Replies are remembered, except those of the replay server.

    Raises:
        ProviderError: a price table cannot be read.
    """
    limits = RateLimits(
        max_concurrency=settings.completions,
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
    )
    prices = prices_of(settings)

    def client(first: Place) -> Provider:
        several = [first, *endpoints.spares]
        choices = [
            Choice(
                OpenAIProvider(
                    place.endpoint, patience=patience, limits=limits, prices=prices, on_retry=on_retry
                ),
                place.model,
            )
            for place, patience in zip(several, _patience(len(several)), strict=True)
        ]
        alone = len(choices) == 1 and first.model is None
        asked: Provider = choices[0].provider if alone else FallbackProvider(choices)
        return _remembered(asked, first, settings, remembering)

    clients = {place: client(place) for place in dict.fromkeys(endpoints.first.values())}
    return {name: clients[place] for name, place in endpoints.first.items()}


def _remembered(asked: Provider, first: Place, settings: RunSettings, remembering: Remembering) -> Provider:
    if remembering.completions is not None and settings.provider is not ProviderKind.REPLAY:
        asked = CachingProvider(
            asked,
            remembering.completions,
            place=" ".join(filter(None, (first.endpoint.base_url, first.model))),
            run=remembering.run,
            fresh=settings.fresh,
        )
    return asked if remembering.record is None else RecordingProvider(asked, remembering.record)


@contextmanager
def open_endpoints(settings: RunSettings, *, quiet: bool) -> Iterator[Endpoints]:
    """The endpoints to ask, and for as long as they are asked the replay server behind the first.

    Raises:
        Usage: no recordings, neither key nor address, or a fallback whose key is not set.
    """
    if settings.provider is ProviderKind.REPLAY:
        folder = Path(settings.recordings) if settings.recordings else installed_prompts() / "recordings"
        if not folder.is_dir():
            raise Usage(f"no folder of recordings: {folder}")
        with ReplayServer(folder) as server:
            if not quiet:
                why = "" if api_key() else "no key is set: "
                say(f"{why}replaying recorded replies of {folder} at {server.base_url}")
            replay = Endpoint(name="replay", base_url=server.base_url, stream=settings.stream)
            yield Endpoints(dict.fromkeys(settings.models, Place(replay)))
        return
    first = {name: _place(choice, settings) for name, choice in settings.endpoints.items()}
    others = [name for name in settings.models if name not in first]
    shared = dict.fromkeys(others, Place(live_endpoint(settings))) if others else {}
    yield Endpoints(first | shared, tuple(_place(choice, settings) for choice in settings.fallbacks))


def _refuse_what_requests_own(settings: RunSettings) -> None:
    extra = settings.sampling.extra_body
    if extra.get("n", 1) != 1:
        raise Usage("sampling.extra_body.n: one reply of a request is kept; ask for more by --samples")
    for name in extra:
        if name in OWNED:
            raise Usage(f"sampling.extra_body.{name}: every request has its own; leave it out")
        if name in Sampling.model_fields:
            raise Usage(f"sampling.extra_body.{name}: there is a setting for it, sampling.{name}")


def live_endpoint(settings: RunSettings) -> Endpoint:
    """The endpoint that settings and environment name.

    Raises:
        Usage: neither key nor address.
    """
    address = settings.base_url or base_url()
    if not api_key() and address is None:
        raise Usage(
            f"no key and no base URL; set {key_variable()}, or ask recorded replies: --provider replay"
        )
    return Endpoint(
        base_url=address or Endpoint().base_url,
        api_key=api_key(),
        key_variable=key_variable(),
        stream=settings.stream,
    )


def _place(choice: EndpointChoice, settings: RunSettings) -> Place:
    return Place(
        Endpoint(
            name=urlsplit(choice.base_url).netloc.rpartition("@")[2],
            base_url=choice.base_url,
            api_key=key_in(choice.key_env),
            key_variable=choice.key_env or "key_env of the endpoint",
            stream=settings.stream,
        ),
        choice.model,
    )


def _patience(count: int) -> list[Patience]:
    """The last of several is tried as long as a lone one would be."""
    return [*[Patience(max_retries=RETRIES_BEFORE_FALLBACK)] * (count - 1), Patience()]


def _parse_fallback(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name.strip() not in _FALLBACK_FIELDS or not value.strip():
            raise Usage(
                f"--fallback {text!r}: {part!r} is not one of {'=…, '.join(_FALLBACK_FIELDS)}=…; an example: "
                "--fallback base_url=http://localhost:8000/v1,model=NAME,key_env=OTHER_KEY"
            )
        fields[name.strip()] = value.strip()
    if "base_url" not in fields:
        raise Usage(f"--fallback {text!r} names no base_url")
    return fields
