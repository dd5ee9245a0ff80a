"""Prices by model, and sums that are exact."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.agent.providers.prices import TablePrice, read_prices
from kernelwright.agent.records.messages import ProviderError, Usage


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
    names = ("gpt-4o", "gpt-4o-mini", "gpt-4o-mini-2024-07-18", "GPT-5", "gpt-5-mini", "replay-handwritten")
    found = [table.find(name) for name in names]
    outputs = [price.cost_usd(Usage(completion_tokens=1_000_000)) for price in found if price is not None]
    assert outputs == [Decimal(text) for text in ("10", "0.6", "0.6", "10", "2", "0")]
    assert table.find("my-own-model") is None
    assert table.find("my-own-model", "gpt-5") == table.find("gpt-5")


@pytest.mark.parametrize(
    ("model", "url"),
    [
        ("claude-sonnet-4-5", ""),
        ("gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("grok-4", "https://api.x.ai/v1"),
        ("qwen/qwen3-coder", "https://openrouter.ai/api/v1"),
        ("mistral-large-latest", "http://localhost:8000/v1"),
        ("deepseek-chat", ""),
    ],
)
def test_models_of_every_large_provider_have_a_price(model: str, url: str) -> None:
    price = read_prices().find(model, url=url)
    assert price is not None
    assert price.cost_usd(Usage(prompt_tokens=1_000_000, completion_tokens=1_000_000)) > 0
    assert "genai-prices" in str(price)


def test_one_model_costs_what_its_endpoint_takes() -> None:
    table = read_prices()
    first, second = (
        table.find("deepseek/deepseek-r1", url=url)
        for url in ("https://openrouter.ai/api/v1", "https://api.novita.ai/v3/openai")
    )
    assert first is not None
    assert second is not None
    assert str(first) != str(second)


def test_a_users_own_table_comes_first(tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    own.write_text('[[price]]\nmodels = ["gpt-5", "local/*"]\ninput = "0.1"\noutput = "0.2"\n')
    table = read_prices(own)
    for name in ("gpt-5", "local/llama"):
        price = table.find(name)
        assert price is not None
        assert isinstance(price, TablePrice)
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
    stored = [Decimal(repr(float(cost))) for cost in costs]
    assert stored == costs and sum(stored, Decimal(0)) == sum(costs, Decimal(0))
