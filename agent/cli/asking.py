"""Whom a run asks: a live endpoint, or the replay server, started here when there is no key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.batch import ModelChoice
from agent.cli.endpoint import api_key, base_url, key_variable
from agent.cli.failures import Usage, say
from agent.cli.settings import ProviderKind, RunSettings
from agent.messages import Provider
from agent.prompts import installed_prompts
from agent.providers.endpoint import Endpoint
from agent.providers.limits import RateLimits
from agent.providers.openai_chat import OpenAIProvider
from agent.providers.prices import read_prices
from agent.providers.recording import RecordingProvider
from agent.providers.replay import MODEL as REPLAY_MODEL
from agent.providers.replay import ReplayServer


def resolve(settings: RunSettings) -> RunSettings:
    """The settings with whom to ask made explicit, so that a resumed run asks the same.

    Raises:
        Usage: no model is named, or what is named as an address is none.
    """
    address = settings.base_url or base_url()
    live = settings.provider or (ProviderKind.OPENAI if api_key() or address else ProviderKind.REPLAY)
    if live is ProviderKind.REPLAY:
        models = settings.models or (REPLAY_MODEL,)
        return settings.model_copy(update={"provider": live, "models": models})
    if address is not None and not re.match(r"https?://[^/\s]+", address):
        raise Usage(f"{address!r} is no base URL; an example: http://localhost:8000/v1")
    if not settings.models:
        raise Usage("which model? --model NAME; it may be repeated")
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


def open_provider(settings: RunSettings, endpoint: Endpoint, *, record: Path | None) -> Provider:
    """A client of the endpoint; with `record` every reply is also written below that folder.

    Raises:
        ProviderError: a price table cannot be read.
    """
    limits = RateLimits(
        max_concurrency=settings.completions,
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
    )
    prices = read_prices(*(Path(table) for table in settings.prices))
    asked = OpenAIProvider(endpoint, limits=limits, prices=prices)
    return RecordingProvider(asked, record) if record is not None else asked


@contextmanager
def open_endpoint(settings: RunSettings, *, quiet: bool) -> Iterator[Endpoint]:
    """The endpoint to ask, and for as long as it is asked the replay server behind it.

    Raises:
        Usage: no recordings, or neither key nor address.
    """
    if settings.provider is ProviderKind.REPLAY:
        folder = Path(settings.recordings) if settings.recordings else installed_prompts() / "recordings"
        if not folder.is_dir():
            raise Usage(f"no folder of recordings: {folder}")
        with ReplayServer(folder) as server:
            if not quiet:
                why = "" if api_key() else "no key is set: "
                say(f"{why}replaying recorded replies of {folder} at {server.base_url}")
            yield Endpoint(name="replay", base_url=server.base_url, stream=settings.stream)
        return
    address = settings.base_url or base_url()
    if not api_key() and address is None:
        raise Usage(
            f"no key and no base URL; set {key_variable()}, or ask recorded replies: --provider replay"
        )
    yield Endpoint(
        base_url=address or Endpoint().base_url,
        api_key=api_key(),
        key_variable=key_variable(),
        stream=settings.stream,
    )
