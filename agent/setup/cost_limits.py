"""Prices of the models that a run may ask, known before it begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernelwright.agent.providers import OFFLINE
from kernelwright.agent.providers.prices import TABLE, PriceTable, read_prices
from kernelwright.agent.providers.provider_kind import find_provider
from kernelwright.agent.setup.credentials import base_url
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.setup.usage_error import UsageError


def prices_of(settings: RunSettings) -> PriceTable:
    """The user's own price tables, then ours, then the installed list.

    Raises:
        ProviderError: one cannot be read.
    """
    return read_prices(*(Path(table) for table in settings.prices))


def refuse_unpriced(settings: RunSettings) -> None:
    """Refuse a bound in dollars on replies that nobody can price; recorded ones cost nothing.

    Raises:
        UsageError: a model that may be asked is in no price table.
        ProviderError: a price table cannot be read.
    """
    bounds = (settings.budget.cost_usd, settings.problem_budget.cost_usd)
    if bounds == (None, None) or not find_provider(settings.provider or OFFLINE).is_live:
        return
    prices = prices_of(settings)
    unknown = dict.fromkeys(name for name, url in _asked(settings) if prices.find(name, url=url) is None)
    if unknown:
        raise UsageError(
            f"a bound in dollars, but no price is known for {', '.join(unknown)}: give a table by "
            f"--set 'prices = [\"FILE.toml\"]' ({TABLE} shows the format), "
            "or bound the run by --max-tokens instead"
        )


def prices_known(settings: RunSettings) -> dict[str, str]:
    """The price of every model that may be asked, in words; models without one are missing."""
    if not find_provider(settings.provider or OFFLINE).is_live:
        return {}
    prices = prices_of(settings)
    found = {name: prices.find(name, url=url) for name, url in _asked(settings)}
    return {name: str(price) for name, price in found.items() if price is not None}


def _asked(settings: RunSettings) -> Iterator[tuple[str, str]]:
    """Names of models as their endpoints know them, with the endpoints' addresses."""
    kind = find_provider(settings.provider or OFFLINE)
    shared = settings.base_url or base_url(kind.url_variables) or kind.default_url
    for name in settings.models:
        own = settings.endpoints.get(name)
        yield (name, shared) if own is None else (own.model or name, own.base_url)
    for choice in settings.fallbacks:
        for name in (choice.model,) if choice.model is not None else settings.models:
            yield name, choice.base_url
