"""Facts of an evaluation in words: what a share of the roofline says, and when it says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.leaderboard.evaluation_facts import facts_of
from kernelwright.agent.records.score import Score
from kernelwright.evaluator import Status
from kernelwright.evaluator.schema.evaluation import Plausibility

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
