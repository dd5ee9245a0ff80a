"""Prices by model, and sums that are exact."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.agent.providers.prices import exact_usd, read_prices, total_usd
from kernelwright.agent.records.messages import Completion, ProviderError, Usage


def completion(cost_usd: float | None) -> Completion:
    return Completion(
        provider="p", model="m", text="", finish_reason="stop", cost_usd=cost_usd, seconds=0, completed_at=""
    )


def test_the_shipped_table_prices_what_was_used() -> None:
    price = read_prices().find("gpt-4.1-2025-04-14")
    assert price is not None
    usage = Usage(
        prompt_tokens=1_000_000, cached_tokens=400_000, completion_tokens=100_000, reasoning_tokens=9
    )
    assert price.cost_usd(usage) == Decimal("2.20")
    assert price.cost_usd(usage, batch=True) == Decimal("1.10")


def test_models_are_told_apart() -> None:
    table = read_prices()
    outputs = {}
    for name in (
        "gpt-4o",
        "gpt-4o-mini",
        "gpt-4o-mini-2024-07-18",
        "GPT-5",
        "gpt-5-mini",
        "replay-handwritten",
    ):
        price = table.find(name)
        assert price is not None
        outputs[name] = price.output
    assert list(outputs.values()) == [Decimal(text) for text in ("10", "0.6", "0.6", "10", "2", "0")]
    assert table.find("my-own-model") is None
    assert table.find("my-own-model", "gpt-5") is table.find("gpt-5")


def test_every_row_says_when_it_was_true() -> None:
    assert all(price.as_of and price.models for price in read_prices().prices)


def test_a_users_own_table_comes_first(tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    own.write_text('[[price]]\nmodels = ["gpt-5", "local/*"]\ninput = "0.1"\noutput = "0.2"\n')
    table = read_prices(own)
    for name in ("gpt-5", "local/llama"):
        price = table.find(name)
        assert price is not None
        assert (price.input, price.cached, price.batch) == (Decimal("0.1"), Decimal("0.1"), Decimal(1))
    assert table.find("gpt-4o") is not None


@pytest.mark.parametrize(
    "text",
    [
        "price = 3",
        "[[price]]\nmodels = ['x']\n",
        "nonsense",
        "[[price]]\nmodels=['x']\ninput='a'\noutput='1'",
        "[[price]]\nmodels=['x']\ninput='NaN'\noutput='1'",
        "[[price]]\nmodels=['x']\ninput='1'\noutput=inf",
        "[[price]]\nmodels=['x']\ninput='-1'\noutput='1'",
        "[[price]]\nmodels=['x']\ninput='1e30'\noutput='1'",
        "[[price]]\nmodels='x'\ninput='1'\noutput='1'",
    ],
)
def test_a_table_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(ProviderError, match=r"cannot read the price table .*own\.toml"):
        read_prices(tmp_path / "own.toml")
    with pytest.raises(ProviderError, match="missing"):
        read_prices(tmp_path / "missing.toml")


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**6)), max_size=50))
def test_sums_of_stored_costs_are_exact(usages: list[tuple[int, int]]) -> None:
    price = read_prices().find("gpt-4o-mini")
    assert price is not None
    costs = [price.cost_usd(Usage(prompt_tokens=asked, completion_tokens=said)) for asked, said in usages]
    assert total_usd(completion(float(cost)) for cost in costs) == sum(costs, Decimal(0))
    assert all(exact_usd(float(cost)) == cost for cost in costs)


def test_unknown_prices_count_as_nothing() -> None:
    assert total_usd([completion(None), completion(0.1), completion(0.2)]) == Decimal("0.3")
