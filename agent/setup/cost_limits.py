"""What a run may cost, as far as that can be told before it begins: prices of the models it may ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernelwright.agent.cli.terminal.failures import Usage
from kernelwright.agent.providers import OFFLINE
from kernelwright.agent.providers.prices import TABLE, PriceTable, read_prices
from kernelwright.agent.providers.provider_kind import find_provider
from kernelwright.agent.setup.run_settings import RunSettings


def prices_of(settings: RunSettings) -> PriceTable:
    """The user's own price tables, then ours.

    Raises:
        ProviderError: one cannot be read.
    """
    return read_prices(*(Path(table) for table in settings.prices))


def refuse_unpriced(settings: RunSettings) -> None:
    """Refuse a bound in dollars on replies that nobody can price; recorded ones cost nothing.

    Raises:
        Usage: a model that may be asked is in no price table.
        ProviderError: a price table cannot be read.
    """
    bounds = (settings.budget.cost_usd, settings.problem_budget.cost_usd)
    if bounds == (None, None) or not find_provider(settings.provider or OFFLINE).is_live:
        return
    prices = prices_of(settings)
    unknown = [name for name in dict.fromkeys(_asked(settings)) if prices.find(name) is None]
    if unknown:
        raise Usage(
            f"a bound in dollars, but no price is known for {', '.join(unknown)}: give a table by "
            f"--set 'prices = [\"FILE.toml\"]' ({TABLE} shows the format), "
            "or bound the run by --max-tokens instead"
        )


def _asked(settings: RunSettings) -> Iterator[str]:
    for name in settings.models:
        own = settings.endpoints.get(name)
        yield own.model if own is not None and own.model is not None else name
    yield from (choice.model for choice in settings.fallbacks if choice.model is not None)
