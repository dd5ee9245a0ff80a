"""Opens the clients of a run: finds its provider and endpoints, and puts fallbacks and caches around them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kernelwright.agent.providers import LIVE, OFFLINE
from kernelwright.agent.providers.completion_cache import CachingProvider
from kernelwright.agent.providers.endpoint import Endpoint, RetryPolicy, is_loopback
from kernelwright.agent.providers.fallback import Choice, FallbackProvider
from kernelwright.agent.providers.policy import RETRIES_BEFORE_FALLBACK
from kernelwright.agent.providers.provider_kind import ClientTerms, ProviderKind, find_provider
from kernelwright.agent.providers.rate_limits import RateLimits, Retrying
from kernelwright.agent.providers.replay.recordings import RecordingProvider
from kernelwright.agent.records.messages import Provider, Sampling
from kernelwright.agent.runner import ModelChoice
from kernelwright.agent.setup.cost_limits import prices_of
from kernelwright.agent.setup.credentials import api_key, base_url, key_in, key_variable
from kernelwright.agent.setup.judge_setup import remote_site, tokens_of
from kernelwright.agent.setup.run_settings import EndpointChoice, RunSettings
from kernelwright.agent.setup.usage_error import UsageError, validated
from kernelwright.evaluator import gpus

_LOG: Final = logging.getLogger(__name__)

OWNED: Final = ("model", "messages", "stream", "stream_options")
"""Fields of a request's body that no `extra_body` may replace."""


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """An endpoint, and its own name of the model."""

    endpoint: Endpoint
    model: str | None = None
    """None: the name that the run uses."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of a run."""

    kind: ProviderKind
    first: Mapping[str, ModelEndpoint]
    """By model."""
    spares: tuple[ModelEndpoint, ...] = ()
    """For when the first cannot answer, in their order."""


def resolve(settings: RunSettings) -> RunSettings:
    """The settings with backend, provider and models made explicit, so that a resumed run asks the same.

    Raises UsageError for what is missing or cannot be, ConfigError if there is no such provider.
    """
    _refuse_what_requests_own(settings)
    if not settings.backends:
        settings = settings.model_copy(update={"backends": _usual_backends(settings)})
    is_live = bool(api_key() or settings.base_url or base_url() or settings.endpoints)
    name = settings.provider or (LIVE if is_live else OFFLINE)
    kind = find_provider(name)
    bulk = settings.batch_api or kind.bulk == name
    settings = settings.model_copy(
        update={"provider": name, "batch_api": bulk, "models": settings.models or kind.default_models}
    )
    if not kind.is_live:
        if settings.fallbacks:
            raise UsageError("--fallback needs a live endpoint before it: set a key, or --base-url")
        return settings
    address = settings.base_url or base_url(kind.url_variables)
    if address is not None and not re.match(r"https?://[^/\s]+", address):
        raise UsageError(f"{address!r} is no base URL; an example: http://localhost:8000/v1")
    if not settings.models:
        raise UsageError("which model? --model NAME; it may be repeated")
    unasked = [name for name in settings.endpoints if name not in settings.models]
    if unasked:
        raise UsageError(
            f"endpoints.{unasked[0]}: no such model is asked; --model names {', '.join(settings.models)}"
        )
    return settings


def backends_of_this_machine() -> tuple[str, ...]:
    """The backend for runs that name none: cuda where there is a GPU, else cpp."""
    return ("cuda",) if gpus() else ("cpp",)


def _usual_backends(settings: RunSettings) -> tuple[str, ...]:
    judges = remote_site(settings, settings.evaluation, ())
    if judges is None:
        return backends_of_this_machine()
    return ("cuda",) if "cuda" in judges.kinds() else ("cpp",)


def provider_of(settings: RunSettings) -> ProviderKind:
    """The provider of resolved settings, with its own settings.

    Raises UsageError if `provider_options` are not its fields, ConfigError if there is no such provider.
    """
    kind = find_provider(settings.provider or OFFLINE)
    shared = {name: getattr(settings, name) for name in kind.model_fields if name in RunSettings.model_fields}
    return validated(kind, {**shared, **settings.provider_options}, prefix="provider_options")


def models_of(settings: RunSettings) -> tuple[ModelChoice, ...]:
    """The models to ask, each once."""
    origin = find_provider(settings.provider or OFFLINE).origin
    return tuple(
        ModelChoice(name=name, sampling=settings.sampling, license=settings.licenses.get(name), origin=origin)
        for name in dict.fromkeys(settings.models)
    )


def open_providers(
    settings: RunSettings,
    endpoints: Endpoints,
    on_retry: Callable[[Retrying], None],
    *,
    run: str,
    completions: Path | None,
    record: Path | None,
) -> dict[str, Provider]:
    """A client for every model; those at one endpoint share one.

    Replies are cached in `completions`, except those that cost nothing, and written to `record`, for replay.
    Raises ProviderError for an unreadable price table.
    """
    terms = ClientTerms(
        limits=RateLimits(
            max_concurrency=settings.completions,
            requests_per_minute=settings.requests_per_minute,
            tokens_per_minute=settings.tokens_per_minute,
        ),
        prices=prices_of(settings),
        on_retry=on_retry,
    )
    kind = endpoints.kind

    def client(first: ModelEndpoint) -> Provider:
        several = [first, *endpoints.spares]
        # The last of several is tried as long as a lone one would be.
        patience = [RetryPolicy(max_retries=RETRIES_BEFORE_FALLBACK)] * len(endpoints.spares)
        choices = [
            Choice(kind.open(place.endpoint, replace(terms, patience=policy)), place.model)
            for place, policy in zip(several, [*patience, RetryPolicy()], strict=True)
        ]
        alone = len(choices) == 1 and first.model is None
        asked: Provider = choices[0].provider if alone else FallbackProvider(choices)
        if completions is not None and kind.is_live:
            asked = CachingProvider(
                asked,
                completions,
                place=" ".join(filter(None, (first.endpoint.base_url or kind.name, first.model))),
                run=run,
                fresh=settings.fresh,
            )
        return asked if record is None else RecordingProvider(asked, record)

    clients = {place: client(place) for place in dict.fromkeys(endpoints.first.values())}
    return {name: clients[place] for name, place in endpoints.first.items()}


@contextmanager
def open_endpoints(settings: RunSettings) -> Iterator[Endpoints]:
    """The endpoints to ask, ready for as long as they are asked.

    Raises UsageError for a missing key or address, ConfigError if the provider's settings cannot work.
    """

    def tell(text: str) -> None:
        _LOG.info("%s%s", "" if api_key() else "no key is set: ", text)

    kind = provider_of(settings)
    own = {name: _endpoint(choice) for name, choice in settings.endpoints.items()} if kind.is_live else {}
    others = [name for name in settings.models if name not in own]
    spares = tuple(_endpoint(choice) for choice in settings.fallbacks)
    if not others:
        yield Endpoints(kind, own, spares)
        return
    with kind.serve(live_endpoint(settings), tell) as shared:
        yield Endpoints(kind, own | dict.fromkeys(others, ModelEndpoint(shared)), spares)


def _refuse_what_requests_own(settings: RunSettings) -> None:
    extra = settings.sampling.extra_body
    if extra.get("n", 1) != 1:
        raise UsageError("sampling.extra_body.n: one reply of a request is kept; ask for more by --samples")
    for name in extra:
        if name in OWNED:
            raise UsageError(f"sampling.extra_body.{name}: every request has its own; leave it out")
        if name in Sampling.model_fields:
            raise UsageError(f"sampling.extra_body.{name}: there is a setting for it, sampling.{name}")


def live_endpoint(settings: RunSettings) -> Endpoint:
    """The endpoint that settings and environment name; raises UsageError without a key and a base URL."""
    kind = find_provider(settings.provider or OFFLINE)
    variables = kind.key_variables
    address = settings.base_url or base_url(kind.url_variables)
    key = api_key(variables)
    if variables and not key and address is None:
        raise UsageError(
            f"no key and no base URL; set {key_variable(variables)}, or ask recorded replies: "
            f"--provider {OFFLINE}"
        )
    return Endpoint(
        name=settings.provider or OFFLINE,
        base_url=address or kind.default_url,
        api_key=key,
        key_variable=key_variable(variables),
    )


def addresses_with_keys(settings: RunSettings) -> dict[str, list[str]]:
    """Addresses elsewhere that settings name and keys of the environment go to, by the setting."""
    kind = find_provider(settings.provider or OFFLINE)
    named = {
        "base_url": [settings.base_url] if settings.base_url and api_key(kind.key_variables) else [],
        "endpoints": [each.base_url for each in settings.endpoints.values() if each.key_env],
        "fallbacks": [each.base_url for each in settings.fallbacks if each.key_env],
        "judges": [url for url, token in tokens_of(settings.judges).items() if token],
    }
    return {name: [each for each in urls if not is_loopback(each)] for name, urls in named.items()}


def _endpoint(choice: EndpointChoice) -> ModelEndpoint:
    return ModelEndpoint(
        Endpoint(
            name=urlsplit(choice.base_url).netloc.rpartition("@")[2],
            base_url=choice.base_url,
            api_key=key_in(choice.key_env),
            key_variable=choice.key_env or "key_env of the endpoint",
        ),
        choice.model,
    )
