"""Charges for turns that work for others, and for steps after the answer: no process runs here."""

from dataclasses import replace

import pytest

from kernelwright.evaluator.referee.timing.claimed_time import (
    Batch,
    PairedTurns,
    Turn,
    TurnLog,
    candidate_timing,
)


def _every_fourth(usual_ms: float, fourth_ms: float, *, turns: int = 20) -> TurnLog:
    took = [fourth_ms if number % 4 == 0 else usual_ms for number in range(turns)]
    return TurnLog([Turn(ms, ms + 0.2, ms + 0.3) for ms in took])


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_turns_that_work_for_others_score_as_the_mean_turn(kind):
    turns = PairedTurns(Batch(kind, 10), _every_fourth(1.0, 13.0), _every_fourth(6.0, 6.0))
    timing = candidate_timing(turns)
    assert timing.median_ms == pytest.approx(0.4)
    assert timing.charges == {"uneven": pytest.approx(0.3)}
    assert timing.clock == "outer"


def _waiting(*waited_ms: float, where: str, turns: int = 20) -> TurnLog:
    """Turns of even claims, and what our clock saw beside them, again and again."""
    seen = [waited_ms[number % len(waited_ms)] for number in range(turns)]
    even = Turn(5.0, 5.0, 5.0)
    if where == "answered":
        return TurnLog([replace(even, answered_ms=5.0 + ms, collected_ms=5.0 + ms) for ms in seen])
    return TurnLog([replace(even, **{where: getattr(even, where) + ms}) for ms in seen])


@pytest.mark.parametrize(
    "where", ["answered", "collected_ms", "setup_ms", "returned_ms", "owning_ms", "freezing_ms"]
)
def test_turns_that_work_for_others_beside_even_claims_are_charged_on_a_cpu(where: str) -> None:
    slow, even = _waiting(20.0, 0.0, 0.0, 0.0, where=where), _waiting(0.0, where=where)
    timing = candidate_timing(PairedTurns(Batch("cpu", 10), slow, even))
    assert timing.charges["uneven"] == pytest.approx(0.5)
    assert candidate_timing(PairedTurns(Batch("cpu", 10), slow, slow)).charges == {}
    assert candidate_timing(PairedTurns(Batch("cpu", 10), even, slow)).charges == {}


@pytest.mark.parametrize(
    ("candidate", "baseline"),
    [
        pytest.param(_every_fourth(1.0, 13.0), _every_fourth(2.0, 26.0), id="the baseline's are as uneven"),
        pytest.param(_every_fourth(1.0, 1.3), _every_fourth(2.0, 2.0), id="hardly"),
        pytest.param(_every_fourth(1.0, 9.0, turns=3), _every_fourth(2.0, 2.0, turns=3), id="few turns"),
        pytest.param(
            _every_fourth(1.0, 2.0, turns=4), _every_fourth(2.0, 2.0, turns=4), id="it may be chance"
        ),
    ],
)
def test_turns_that_differ_by_chance_or_for_both_are_not_charged(candidate, baseline):
    assert candidate_timing(PairedTurns(Batch("cpu", 10), candidate, baseline)).charges == {}


def _owning(owning_ms: float) -> TurnLog:
    return TurnLog([Turn(5.0, 5.2, 5.3, owning_ms=owning_ms) for _ in range(18)])


@pytest.mark.parametrize(("owning_ms", "added_ms"), [(1.0, 0.0), (1.5, 0.0), (3.05, 1.5)])
def test_looking_for_shared_memory_is_charged_beyond_what_processes_differ_by(
    owning_ms: float, added_ms: float
) -> None:
    turns = PairedTurns(Batch("cpu", 10), _owning(owning_ms), _owning(1.0))
    assert candidate_timing(turns).median_ms == pytest.approx((5.0 + added_ms) / 10)


def test_standing_still_late_is_charged_beyond_what_processes_differ_by() -> None:
    late, baseline = (
        TurnLog([Turn(5.0, 5.2, 5.3, freezing_ms=freezing_ms) for _ in range(18)])
        for freezing_ms in (4.05, 1.0)
    )
    assert candidate_timing(PairedTurns(Batch("cpu", 10), late, baseline)).median_ms == pytest.approx(0.75)
    assert candidate_timing(PairedTurns(Batch("cpu", 10), baseline, late)).median_ms == pytest.approx(0.5)


def test_looking_for_nothing_excuses_no_claim() -> None:
    log = TurnLog([Turn(4.0, 5.2, 5.3, owning_ms=0.0) for _ in range(18)])
    turns = PairedTurns(Batch("cpu", 10), log, _owning(4.0))
    assert candidate_timing(turns).median_ms == pytest.approx(5.0 / 10)
