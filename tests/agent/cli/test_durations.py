"""Durations as people write them."""

from __future__ import annotations

import pytest

from kernelwright.agent.cli.terminal.option_values import parse_seconds
from kernelwright.agent.setup.usage_error import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("90s", 90), ("10m", 600), ("2 h", 7200), ("1.5h", 5400), ("1d", 86400)],
)
def test_a_duration_is_read_with_its_unit(text: str, expected: float) -> None:
    assert parse_seconds(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-5", "soon", "5 weeks", "1e3"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="examples"):
        parse_seconds(text)
