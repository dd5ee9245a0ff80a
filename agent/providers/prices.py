"""Prices of tokens and exact sums of money.

A price comes from the user's own tables (TOML, `prices.toml` shows the format), else from the list that the
installed `genai-prices` package holds: by the endpoint's address where the list knows it, else by the model's
name alone. Nothing is ever downloaded.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import Field, ValidationError

from kernelwright.agent.providers.policy import BATCH_FACTOR, HIGHEST_PRICE, SMALLEST_COST
from kernelwright.agent.records.messages import ProviderError, Usage
from kernelwright.evaluator import Record

TABLE: Final = Path(__file__).with_name("prices.toml")


# A cost of anything else could not be written down, or would give money back.
_Amount: TypeAlias = Annotated[Decimal, Field(ge=0, le=HIGHEST_PRICE)]


class TablePrice(Record, extra="ignore"):
    """A row of a price table: dollars per million tokens of one family of models."""

    models: tuple[str, ...]
    input: _Amount
    cached: _Amount
    output: _Amount
    batch: _Amount = Decimal(1)
    """Factor on everything under the Batch API."""
    as_of: str = ""

    def cost_usd(self, usage: Usage, *, batch: bool = False) -> Decimal:
        """The cost of a usage, to a billionth of a dollar; `batch` under the Batch API."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        dollars = (
            (usage.prompt_tokens - cached) * self.input
            + cached * self.cached
            + usage.completion_tokens * self.output
        ) / 1_000_000
        return (dollars * (self.batch if batch else 1)).quantize(SMALLEST_COST)

    def __str__(self) -> str:
        rates = f"${self.input} input, ${self.cached} cached, ${self.output} output per million tokens"
        return f"{rates}, as of {self.as_of}" if self.as_of else rates


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """A price of the installed list, tiers by prompt length included."""

    provider: str
    model: str

    def cost_usd(self, usage: Usage, *, batch: bool = False) -> Decimal:
        import genai_prices

        counts = genai_prices.Usage(
            input_tokens=usage.prompt_tokens,
            cache_read_tokens=min(usage.cached_tokens, usage.prompt_tokens),
            output_tokens=usage.completion_tokens,
        )
        dollars = genai_prices.calc_price(counts, self.model, provider_id=self.provider).total_price
        return (dollars * (BATCH_FACTOR if batch else 1)).quantize(SMALLEST_COST)

    def __str__(self) -> str:
        import genai_prices

        nothing = genai_prices.Usage(input_tokens=0, output_tokens=0)
        price = genai_prices.calc_price(nothing, self.model, provider_id=self.provider).model_price
        return f"{self.provider} {self.model}: {price}, genai-prices {genai_prices.__version__}"


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by model; the first match wins."""

    prices: tuple[TablePrice, ...] = ()
    is_listed: bool = False
    """True: models of no row are looked up in the installed list."""

    def find(self, *models: str, url: str = "") -> TablePrice | ListedPrice | None:
        """The price of the first of these names that has one, at the endpoint with this address."""
        for model in models:
            for price in self.prices:
                if any(fnmatchcase(model.lower(), pattern.lower()) for pattern in price.models):
                    return price
            if self.is_listed and (listed := _listed(model, url)):
                return listed
        return None


def _listed(model: str, url: str) -> ListedPrice | None:
    from genai_prices.data_snapshot import get_snapshot

    for address in (url or None, None):
        try:
            provider, found = get_snapshot().find_provider_model(model, None, None, address)
        except LookupError:
            continue
        return ListedPrice(provider.id, found.id)
    return None


def read_prices(*own: Path) -> PriceTable:
    """The user's own tables, then ours, then the installed list; raises ProviderError for a bad file."""
    return PriceTable(tuple(price for path in (*own, TABLE) for price in _read(path)), is_listed=True)


def _read(path: Path) -> list[TablePrice]:
    try:
        rows = tomllib.loads(path.read_text("utf-8"))["price"]
        return [TablePrice.model_validate({"cached": row["input"], **row}) for row in rows]
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{first['loc'][0]} is {first['input']!r}: {first['msg']}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = str(error)
    raise ProviderError(
        f"cannot read the price table {path}: {why}; see agent/providers/prices.toml for the format"
    )
