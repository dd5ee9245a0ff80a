"""Prices of the models that a run may ask, known before it begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernelwright.agent.providers import OFFLINE
from kernelwright.agent.providers.prices import TABLE, ListedPrice, PriceTable, TablePrice, read_prices
from kernelwright.agent.providers.provider_kind import find_provider
from kernelwright.agent.setup.credentials import base_url
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.setup.usage_error import UsageError


def prices_of(settings: RunSettings) -> PriceTable:
    """The user's own price tables, then ours, then the installed list; raises ProviderError."""
    return read_prices(*(Path(table) for table in settings.prices))


def refuse_unpriced(settings: RunSettings) -> None:
    """Refuse a bound in dollars on replies that nobody can price; recorded ones cost nothing.

    Raises UsageError, or ProviderError if a price table cannot be read.
    """
    if (settings.budget.cost_usd, settings.problem_budget.cost_usd) == (None, None):
        return
    unknown = dict.fromkeys(name for name, price in _prices(settings) if price is None)
    if unknown:
        raise UsageError(
            f"a bound in dollars, but no price is known for {', '.join(unknown)}: give a table by "
            f"--set 'prices = [\"FILE.toml\"]' ({TABLE} shows the format), "
            "or bound the run by --max-tokens instead"
        )


def prices_known(settings: RunSettings) -> dict[str, str]:
    """The price of every model that may be asked, in words; models without one are missing."""
    return {name: str(price) for name, price in _prices(settings) if price is not None}


def _prices(settings: RunSettings) -> Iterator[tuple[str, TablePrice | ListedPrice | None]]:
    """Names of live models as their endpoints know them, with what they cost there."""
    kind = find_provider(settings.provider or OFFLINE)
    if not kind.is_live:
        return
    prices = prices_of(settings)
    shared = settings.base_url or base_url(kind.url_variables) or kind.default_url
    for name in settings.models:
        own = settings.endpoints.get(name)
        asked, url = (name, shared) if own is None else (own.model or name, own.base_url)
        yield asked, prices.find(asked, url=url)
    for choice in settings.fallbacks:
        for name in (choice.model,) if choice.model is not None else settings.models:
            yield name, prices.find(name, url=choice.base_url)
