"""Facts of an evaluation in words: what a share of the roofline says, and when it says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.leaderboard.evaluation_facts import facts_of
from kernelwright.agent.records.score import Score
from kernelwright.evaluator import Status
from kernelwright.evaluator.schema.evaluation import Plausibility, Verification

if TYPE_CHECKING:
    from tests.agent.conftest import Make


@pytest.mark.parametrize(
    ("share", "dense", "words", "kept"),
    [
        (0.8, False, "80% of the roofline", 0.8),
        (1.02, False, "at the roofline, as measured", 1.0),
        (6.8, False, "faster than the roofline of the reference's operations: it does less", None),
        (0.8, True, "80% of the roofline of the dense form", None),
        (3.0, True, "faster than the roofline of the dense form: it skips masked work", None),
    ],
)
def test_a_roofline_that_is_no_limit_gives_no_share(
    make: Make, share: float, dense: bool, words: str, kept: float | None
) -> None:
    limits = Plausibility(bytes_moved=1 << 20, speed_of_light=share, dense=dense)
    scored = make.evaluation(Status.PASSED, source="x").model_copy(update={"plausibility": limits})
    assert words in dict(facts_of(scored))["rate"]
    assert Score.of(scored).speed_of_light == kept


@pytest.mark.parametrize(
    ("clock", "charges", "told"),
    [
        ("inner", {"collecting": 0.5}, None),
        ("outer", {}, None),
        (
            "outer",
            {"collecting": 0.5, "aside": 0.25, "answering": -0.1},
            "collecting 0.5 ms, aside 0.25 ms a call",
        ),
        ("single", {"alone": 0.5}, "alone 0.5 ms a call"),
    ],
)
def test_what_was_charged_is_told(
    make: Make, clock: str, charges: dict[str, float], told: str | None
) -> None:
    scored = make.evaluation(Status.PASSED, source="x")
    assert scored.measurement is not None
    timing = scored.measurement.candidate.model_copy(update={"clock": clock, "charges": charges})
    measured = scored.measurement.model_copy(update={"candidate": timing})
    found = dict(facts_of(scored.model_copy(update={"measurement": measured}))).get("charged")
    assert found is None if told is None else found is not None and found.startswith(told)


@pytest.mark.parametrize(
    ("inputs", "factor", "told"),
    [
        ((), 4.0, None),
        ((), None, None),
        ((), 1.0, "the size of random weights"),
        (("input 1",), 1.0, "input 1, the size of random weights"),
    ],
)
def test_what_was_never_varied_is_told(
    make: Make, inputs: tuple[str, ...], factor: float | None, told: str | None
) -> None:
    checked = Verification(
        trials=9,
        distributions=(),
        weights="seed",
        parameters="seed",
        error_ratio=2.0,
        limit_ratio=64.0,
        constant_inputs=inputs,
        weight_factor=factor,
    )
    scored = make.evaluation(Status.PASSED, source="x").model_copy(update={"verification": checked})
    assert dict(facts_of(scored)).get("never varied") == told
