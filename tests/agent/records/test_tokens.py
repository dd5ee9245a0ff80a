"""The estimate of tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.agent.records.tokens import estimate_tokens


def test_what_counts() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("hello world") == 2
    assert estimate_tokens("hello\n\n    world") == 3
    assert estimate_tokens("internationalization") == 4
    assert estimate_tokens("x[12345] = y;") == 8
    assert estimate_tokens("漢字") == 2


@given(st.text(), st.text())
def test_estimates_add_up_to_a_token(left: str, right: str) -> None:
    whole, parts = estimate_tokens(left + right), estimate_tokens(left) + estimate_tokens(right)
    assert abs(whole - parts) <= 1
