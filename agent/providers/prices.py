"""What tokens cost: a table read from TOML, and exact sums of money."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from kernelwright.agent.records.messages import Completion, ProviderError, Usage

TABLE: Final = Path(__file__).with_name("prices.toml")
_MOST: Final = 10**6
"""Dollars for a million tokens."""
_SMALLEST: Final = Decimal("1e-9")
"""Costs are kept to a billionth of a dollar: a float carries that exactly, so sums agree to the cent."""


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens of one family of models."""

    models: tuple[str, ...]
    input: Decimal
    cached: Decimal
    output: Decimal
    batch: Decimal
    """Factor on everything under the Batch API."""
    as_of: str

    def cost_usd(self, usage: Usage, *, batch: bool = False) -> Decimal:
        """What a usage costs, to a billionth of a dollar."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        dollars = (
            (usage.prompt_tokens - cached) * self.input
            + cached * self.cached
            + usage.completion_tokens * self.output
        ) / 1_000_000
        return (dollars * (self.batch if batch else 1)).quantize(_SMALLEST)


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by model, first match wins."""

    prices: tuple[Price, ...] = ()

    def find(self, *models: str) -> Price | None:
        """The price of the first of these names that the table knows."""
        for model in models:
            for price in self.prices:
                if any(fnmatchcase(model.lower(), pattern.lower()) for pattern in price.models):
                    return price
        return None


def read_prices(*own: Path) -> PriceTable:
    """The shipped table, with a user's own files looked at first.

    Raises:
        ProviderError: a file is missing or not in the table's format.
    """
    return PriceTable(tuple(price for path in (*own, TABLE) for price in _read(path)))


def total_usd(completions: Iterable[Completion]) -> Decimal:
    """The exact sum of what completions cost; those of unknown price count as nothing."""
    return sum((exact_usd(completion.cost_usd or 0.0) for completion in completions), Decimal(0))


def exact_usd(cost_usd: float) -> Decimal:
    """The decimal a stored cost stands for."""
    return Decimal(repr(cost_usd)).quantize(_SMALLEST)


def _names(models: object) -> tuple[str, ...]:
    if not isinstance(models, list) or not all(isinstance(name, str) for name in models):
        raise TypeError(f"models is {models!r}, not a list of names")
    return tuple(models)


def _amount(given: str | float) -> Decimal:
    """A price as given; a cost of anything else could not be written down, or would give money back."""
    amount = Decimal(given)
    if not 0 <= amount <= _MOST:
        raise ValueError(f"{given!r} is no price")
    return amount


def _read(path: Path) -> list[Price]:
    try:
        rows = tomllib.loads(path.read_text("utf-8"))["price"]
        return [
            Price(
                models=_names(row["models"]),
                input=_amount(row["input"]),
                cached=_amount(row.get("cached", row["input"])),
                output=_amount(row["output"]),
                batch=_amount(row.get("batch", "1")),
                as_of=row.get("as_of", ""),
            )
            for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InvalidOperation) as error:
        raise ProviderError(
            f"cannot read the price table {path}: {error}; see agent/providers/prices.toml for the format"
        ) from error
