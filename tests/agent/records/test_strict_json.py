"""What programs read holds nothing that strict JSON cannot say, and comes back as it was."""

from __future__ import annotations

import json
from math import inf, isnan, nan
from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.records.strict_json import strict_json
from kernelwright.evaluator import Evaluation, Record

if TYPE_CHECKING:
    from tests.agent.conftest import Make


class Pair(Record):
    """Two numbers."""

    one: float
    other: float


def _strict(text: str) -> object:
    def refuse(name: str) -> object:
        pytest.fail(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("indent", [None, 2])
def test_numbers_that_json_lacks_survive_as_strings(indent: int | None) -> None:
    text = strict_json(Pair(one=-inf, other=nan), indent=indent)
    assert _strict(text) == {"one": "-Infinity", "other": "NaN"}
    again = Pair.model_validate_json(text)
    assert again.one == -inf
    assert isnan(again.other)


def test_an_evaluation_comes_back_as_it_was(make: Make) -> None:
    evaluation = make.evaluation(speedup=2.0, measurement=make.measurement(2.0, low=1.1, high=inf))
    text = strict_json([evaluation.model_dump(mode="json")])
    (held,) = json.loads(text)
    assert _strict(text) == [held]
    assert held["measurement"]["interval"]["high"] == "Infinity"
    assert Evaluation.model_validate_json(json.dumps(held)) == evaluation


def test_half_a_character_is_replaced() -> None:
    assert _strict(strict_json({"a\ud800": ["\udfff"]})) == {"a?": ["?"]}
