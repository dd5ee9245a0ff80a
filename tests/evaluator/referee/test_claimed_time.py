"""Scores of claims by turns as they may come: no process runs here."""

import random
from dataclasses import replace

import pytest

from kernelwright.evaluator.referee.timing.claimed_time import (
    Batch,
    PairedTurns,
    Turn,
    TurnLog,
    candidate_timing,
    forged_clock,
    slower_kind,
)

NOISE = random.Random(4)
SHORT_TURNS, SHORT_CALLS = 18, 36


def _turn(claimed_ms: float, answered_ms: float, collect_ms: float) -> Turn:
    return Turn(claimed_ms, answered_ms, answered_ms + collect_ms)


def _log(work_ms: float, *, claimed: float, wander_ms: float, turns: int = 18) -> TurnLog:
    """A worker whose calls take `work_ms` a turn and that claims a share of it."""
    return TurnLog(
        [_turn(work_ms * claimed, work_ms + 0.2 + NOISE.uniform(0.0, wander_ms), 0.1) for _ in range(turns)]
    )


def _scored(
    candidate: TurnLog, baseline: TurnLog, *, kind: str = "cpu", count: int = 10, lead: int = 0
) -> tuple[float, str]:
    timing = candidate_timing(PairedTurns(Batch(kind, count, lead=lead), candidate, baseline))
    return timing.median_ms, timing.clock


def _besides(log: TurnLog, where: str, ms: float, wander_ms: float) -> None:
    """Let each turn take so long beside its calls."""
    log.batches[:] = [replace(turn, **{where: ms + NOISE.uniform(0.0, wander_ms)}) for turn in log.batches]


def test_an_honest_claim_scores():
    median_ms, clock = _scored(_log(5.0, claimed=1.0, wander_ms=0.02), _log(6.0, claimed=1.0, wander_ms=0.02))
    assert clock == "inner"
    assert median_ms == 0.5


def test_a_claim_of_nothing_scores_by_our_clock():
    median_ms, clock = _scored(_log(5.0, claimed=0.0, wander_ms=0.02), _log(5.0, claimed=1.0, wander_ms=0.02))
    assert clock == "outer"
    assert median_ms > 0.45


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("claimed", [0.0, 0.4])
@pytest.mark.parametrize("lies", [5, 9, 13])
def test_lies_in_some_turns_are_not_cleared_by_the_others(kind, claimed, lies):
    """Of eighteen; on a CPU the quicker quarter scores."""
    candidate, honest = (_log(5.0, claimed=share, wander_ms=0.02) for share in (claimed, 1.0))
    candidate.batches[lies:] = honest.batches[lies:]
    NOISE.shuffle(candidate.batches)
    median_ms, _ = _scored(candidate, _log(5.0, claimed=1.0, wander_ms=0.02), kind=kind)
    assert median_ms > 0.9 * 0.5


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("late", [7, 11, 15])
def test_work_that_is_collected_in_some_turns_is_part_of_the_time(kind, late):
    """Of eighteen: what is typical of claims, and of collecting, is typical of no turn."""
    candidate, honest = (_log(5.0, claimed=1.0, wander_ms=0.02) for _ in range(2))
    candidate.batches[:late] = [_turn(0.5, 0.7, 4.6 + NOISE.uniform(0.0, 0.02)) for _ in range(late)]
    NOISE.shuffle(candidate.batches)
    median_ms, _ = _scored(candidate, honest, kind=kind)
    assert median_ms > 0.9 * 0.5


def test_work_hidden_in_three_places_by_turns_is_part_of_the_time():
    """A third each: collected, run on the device beside the calls, and in getting ready for them."""
    candidate, honest = (_log(5.0, claimed=1.0, wander_ms=0.02) for _ in range(2))
    for log in (candidate, honest):
        _besides(log, "setup_ms", 1.0, 0.02)
    places = ["collected", "taken", "aside"] * 6
    NOISE.shuffle(places)
    for turn, hidden in enumerate(places):
        before = candidate.batches[turn]
        candidate.batches[turn] = replace(
            _turn(0.5, 0.7, 4.6 if hidden == "collected" else 0.1),
            setup_ms=before.setup_ms + 4.5 * (hidden == "aside"),
            foreign_device_ms=4.5 * (hidden == "taken"),
        )
    median_ms, _ = _scored(candidate, honest, kind="cuda")
    assert median_ms > 0.9 * 0.5


def test_lone_calls_that_are_paid_for_while_they_are_collected_score_as_they_cost():
    candidate = _with_singles(_log(3.0, claimed=1.0, wander_ms=0.02), 0.01, 0.05)
    candidate.single_calls[:] = [_turn(0.01, 0.21, 1.1 + NOISE.uniform(0.0, 0.05)) for _ in range(6)]
    median_ms, clock = _scored(candidate, _with_singles(_log(10.0, claimed=1.0, wander_ms=0.02), 1.0, 0.05))
    assert clock == "single"
    assert median_ms == pytest.approx(1.0, abs=0.15)


def test_a_noisy_machine_is_no_excuse_for_a_claim_of_nothing():
    median_ms, clock = _scored(_log(5.0, claimed=0.0, wander_ms=8.0), _log(5.0, claimed=1.0, wander_ms=40.0))
    assert clock == "outer" or median_ms > 0.2


def _with_singles(log: TurnLog, lone_ms: float, wander_ms: float) -> TurnLog:
    """Its unannounced batches of one call."""
    log.single_calls[:] = [
        _turn(lone_ms, lone_ms + 0.2 + NOISE.uniform(0.0, wander_ms), 0.1) for _ in range(6)
    ]
    return log


def test_calls_merged_within_a_batch_score_as_they_cost_alone():
    """Ten calls together cost two thirds of ten calls alone."""
    candidate = _with_singles(_log(7.0, claimed=1.0, wander_ms=0.02), 1.05, 0.05)
    median_ms, clock = _scored(candidate, _with_singles(_log(10.0, claimed=1.0, wander_ms=0.02), 1.0, 0.05))
    assert clock == "single"
    assert median_ms == pytest.approx(1.05, abs=0.06)


def test_a_lone_call_may_cost_more_where_the_baselines_does_too():
    candidate = _with_singles(_log(7.0, claimed=1.0, wander_ms=0.02), 1.05, 0.05)
    median_ms, clock = _scored(candidate, _with_singles(_log(10.0, claimed=1.0, wander_ms=0.02), 1.4, 0.05))
    assert (clock, median_ms) == ("inner", 0.7)


def _short(*, batched_ms: float, lone_ms: float, answered_ms: float = 1.0, wander_ms: float = 0.3) -> TurnLog:
    """Calls of less than 0.1 ms, where waking a process takes ten times as long."""
    log = _log(0.0, claimed=1.0, wander_ms=0.0, turns=0)
    for made, turns, work_ms in (
        (log.batches, SHORT_TURNS, 100 * batched_ms),
        (log.single_calls, SHORT_CALLS, lone_ms),
    ):
        for _ in range(turns):
            inner_ms = work_ms + NOISE.uniform(0.0, 0.03)
            made.append(_turn(inner_ms, inner_ms + answered_ms + NOISE.uniform(0.0, wander_ms), 0.1))
    return log


def test_short_calls_that_a_batch_merges_gain_nothing():
    """Ten small operations, 0.08 ms: a hundred calls are computed as one."""
    candidate, baseline = _short(batched_ms=0.0115, lone_ms=0.22), _short(batched_ms=0.08, lone_ms=0.2)
    median_ms, clock = _scored(candidate, baseline, count=100)
    assert clock == "single"
    assert median_ms > 0.08


def test_on_a_cpu_the_least_of_the_lone_calls_counts():
    """Others make most of them longer, whoever makes them: that neither charges nor excuses anybody."""
    for candidate_ms, disturbed, clock in (
        (0.2, 0, "inner"),
        (0.2, 1, "inner"),
        (0.4, 1, "single"),
        (0.4, 0, "single"),
    ):
        logs = [_short(batched_ms=0.2, lone_ms=lone_ms) for lone_ms in (candidate_ms, 0.2)]
        singles = logs[disturbed].single_calls
        singles[6:] = [
            replace(turn, claimed_ms=turn.claimed_ms + 0.5, answered_ms=turn.answered_ms + 0.5)
            for turn in singles[6:]
        ]
        assert _scored(*logs, count=100)[1] == clock


def test_on_a_cpu_lone_calls_that_claim_too_little_are_charged_what_they_hide():
    """Nobody is charged because batches of the baseline were answered late by chance."""
    forging, honest = _short(batched_ms=0.05, lone_ms=0.2), _short(batched_ms=0.2, lone_ms=0.2)
    forging.single_calls[:] = [replace(turn, claimed_ms=0.05) for turn in forging.single_calls]
    median_ms, clock = _scored(forging, honest, count=100)
    assert clock == "single"
    assert median_ms > 0.15
    late = _short(batched_ms=0.2, lone_ms=0.2)
    late.batches[:] = [replace(turn, answered_ms=turn.answered_ms + 40.0) for turn in late.batches]
    assert _scored(_short(batched_ms=0.2, lone_ms=0.2), late, count=100)[1] != "single"


def test_short_calls_of_the_same_code_are_not_charged():
    """A lone call runs cold code, and a process may answer a little later as long as it lives."""
    for answered_ms in (0.95, 1.0, 1.08):
        candidate = _short(batched_ms=0.08, lone_ms=0.21, answered_ms=answered_ms)
        median_ms, clock = _scored(candidate, _short(batched_ms=0.08, lone_ms=0.2), count=100)
        assert (clock, median_ms) == ("inner", pytest.approx(0.08, rel=0.01))


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_getting_ready_for_longer_than_the_baseline_is_part_of_the_time(kind):
    candidate, baseline = (_log(work, claimed=1.0, wander_ms=0.02) for work in (5.0, 10.0))
    _besides(candidate, "setup_ms", 8.0, 0.1)
    _besides(baseline, "setup_ms", 3.0, 0.1)
    median_ms, clock = _scored(candidate, baseline, kind=kind)
    assert clock == "outer"
    assert median_ms == pytest.approx(1.0, rel=0.05)


def test_dropping_outputs_for_longer_than_the_baseline_is_part_of_the_time():
    candidate, baseline = (_log(work_ms, claimed=1.0, wander_ms=0.02) for work_ms in (2.0, 5.0))
    _besides(candidate, "returned_ms", 3.4, 0.02)
    _besides(baseline, "returned_ms", 0.4, 0.02)
    median_ms, clock = _scored(candidate, baseline)
    assert clock == "outer"
    assert median_ms > 0.9 * 0.5


def test_getting_ready_as_long_as_the_baseline_is_not():
    candidate, baseline = (_log(5.0, claimed=1.0, wander_ms=0.02) for _ in range(2))
    _besides(candidate, "setup_ms", 3.0, 0.02)
    _besides(baseline, "setup_ms", 3.0, 0.02)
    assert _scored(candidate, baseline) == (0.5, "inner")


@pytest.mark.parametrize(
    ("taken", "call_ms"), [((True, False), 1.0), ((False, True), 1.0), ((True, True), 1.5)]
)
def test_taking_the_device_is_part_of_the_time_whoever_has_the_turn(taken, call_ms):
    """A candidate's work may go on while the baseline has its turn."""
    candidate, baseline = (_log(5.0, claimed=1.0, wander_ms=0.02) for _ in range(2))
    for log, takes in zip((candidate, baseline), taken, strict=True):
        if takes:
            _besides(log, "foreign_device_ms", 5.0, 0.1)
    median_ms, clock = _scored(candidate, baseline, kind="cuda")
    assert clock == "outer"
    assert median_ms == pytest.approx(call_ms, rel=0.05)


def test_a_lone_call_that_works_ahead_while_it_is_queued_scores_as_it_costs():
    candidate = _with_singles(_log(1.0, claimed=1.0, wander_ms=0.02), 0.1, 0.01)
    candidate.single_calls[:] = [replace(turn, foreign_device_ms=0.9) for turn in candidate.single_calls]
    baseline = _with_singles(_log(10.0, claimed=1.0, wander_ms=0.02), 1.0, 0.01)
    assert _scored(candidate, baseline, kind="cuda")[1] == "single"


def _led(*, work_ms: float, moved_ms: float = 0.0, first_ms: float = 0.0) -> TurnLog:
    """Batches of one scored call after an unscored one; `moved_ms` of the scored call's work runs in that."""
    log = _log(0.0, claimed=1.0, wander_ms=0.0, turns=0)
    log.batches[:] = [
        _turn(work_ms - moved_ms, 2 * work_ms + first_ms + 0.2 + NOISE.uniform(0.0, 0.02), 0.1)
        for _ in range(18)
    ]
    return log


def test_work_moved_into_the_unscored_lead_is_scored():
    honest, mover = _led(work_ms=4.0), _led(work_ms=4.0, moved_ms=3.0)
    assert _scored(honest, _led(work_ms=6.0), count=1, lead=1) == (4.0, "inner")
    median_ms, clock = _scored(mover, _led(work_ms=6.0), count=1, lead=1)
    assert clock == "outer"
    assert median_ms == pytest.approx(4.0, rel=0.02)


def test_a_host_that_begins_slowly_costs_a_led_batch_nothing():
    median_ms, clock = _scored(
        _led(work_ms=0.2, first_ms=0.08), _led(work_ms=0.6, first_ms=0.08), count=1, lead=1
    )
    assert (median_ms, clock) == (0.2, "inner")


@pytest.mark.parametrize("claimed", [0.0, 0.5])
@pytest.mark.parametrize("work_ms", [0.06, 0.5, 2.0])
@pytest.mark.parametrize("wander_ms", [0.01, 0.2, 2.0])
def test_batches_too_short_to_tell_leave_no_room_for_a_lie(work_ms, wander_ms, claimed):
    """Two calls of 0.03 ms, a batch that a full device allowed: our clock wanders by more than they take."""
    NOISE.seed(f"{work_ms} {wander_ms} {claimed}")
    scores = []
    for _ in range(20):
        candidate = _log(work_ms, claimed=claimed, wander_ms=wander_ms)
        baseline = _log(work_ms, claimed=1.0, wander_ms=wander_ms)
        median_ms, clock = _scored(candidate, baseline, kind="cuda", count=2)
        assert clock == "outer"
        scores.append(2 * median_ms / work_ms)
    assert sum(scores) / len(scores) > 0.9
    assert min(scores) > 0.2


def test_short_batches_that_our_clock_can_tell_of_score_as_claimed():
    for work_ms in (0.5, 2.0):
        logs = [_log(work_ms, claimed=1.0, wander_ms=0.02) for _ in range(2)]
        assert _scored(logs[0], logs[1], kind="cuda", count=2) == (work_ms / 2, "inner")


@pytest.mark.parametrize("claimed", [0.0, 0.1])
def test_claims_far_below_our_clock_in_every_turn_are_forged(claimed):
    candidate, baseline = (_log(50.0, claimed=share, wander_ms=0.02) for share in (claimed, 1.0))
    turns = PairedTurns(Batch("cpu", 10), candidate, baseline)
    assert f"claims {50 * claimed:.3f} ms where our clock saw 50.2" in forged_clock(turns)
    candidate.batches[7] = baseline.batches[7]
    assert forged_clock(turns) == "", "a clock is forged in every turn, or it may have been chance"
    few = PairedTurns(Batch("cpu", 10), TurnLog(candidate.batches[:2]), TurnLog(baseline.batches[:2]))
    assert forged_clock(few) == ""


def test_a_millisecond_that_a_process_answers_late_is_no_forged_clock():
    candidate, baseline = (_log(1.5, claimed=share, wander_ms=0.02) for share in (0.3, 1.0))
    assert forged_clock(PairedTurns(Batch("cpu", 10), candidate, baseline)) == ""


def test_claims_as_long_as_our_clock_and_late_wakings_are_not_forged():
    for claimed in (1.0, 0.9):
        candidate, baseline = (_log(50.0, claimed=share, wander_ms=0.02) for share in (claimed, 1.0))
        assert forged_clock(PairedTurns(Batch("cpu", 10), candidate, baseline)) == ""
    late = _log(5.0, claimed=0.0, wander_ms=40.0)
    assert forged_clock(PairedTurns(Batch("cpu", 10), late, _log(5.0, claimed=0.0, wander_ms=40.0))) == ""


def _many_singles(log: TurnLog, lone_ms: float, *, answered_ms: float = 0.2) -> TurnLog:
    log.single_calls[:] = [
        _turn(lone_ms, lone_ms + answered_ms + NOISE.uniform(0.0, 1e-3), 0.0) for _ in range(16)
    ]
    return log


@pytest.mark.parametrize(("late_ms", "clock"), [(0.02, "inner"), (0.06, "single")])
def test_a_queued_lone_call_that_is_answered_later_than_it_claims_holds_merged_work(late_ms, clock):
    """Both processes were awake when their gate opened."""
    candidate, baseline = (_many_singles(_log(0.1, claimed=1.0, wander_ms=1e-3), 0.01) for _ in range(2))
    _many_singles(candidate, 0.01, answered_ms=0.2 + late_ms)
    turns = PairedTurns(Batch("cuda", 10, queued=True), candidate, baseline)
    assert candidate_timing(turns).clock == clock


def test_work_in_a_lone_call_beside_its_clock_is_merged_work():
    candidate, baseline = (_many_singles(_log(0.1, claimed=1.0, wander_ms=1e-3), 0.01) for _ in range(2))
    candidate.single_calls[:] = [replace(turn, foreign_device_ms=0.06) for turn in candidate.single_calls]
    turns = PairedTurns(Batch("cuda", 10, queued=True), candidate, baseline)
    assert candidate_timing(turns).clock == "single"


def test_lone_calls_that_some_are_longer_for_no_work_hide_none_in_the_others():
    candidate, baseline = (_many_singles(_log(0.1, claimed=1.0, wander_ms=1e-3), 0.01) for _ in range(2))
    _many_singles(candidate, 0.05)
    candidate.single_calls[::2] = [replace(turn, claimed_ms=0.6) for turn in candidate.single_calls[::2]]
    timing = candidate_timing(PairedTurns(Batch("cuda", 10, queued=True), candidate, baseline))
    assert timing.charges["alone"] == pytest.approx(0.04, rel=0.1)


def test_what_a_batch_of_few_calls_costs_besides_is_not_taken_for_work_of_its_lone_calls():
    """A GPU that works for somebody else until its time slice ends held up the baseline's batches."""
    candidate, baseline = (
        _many_singles(_log(0.1, claimed=1.0, wander_ms=1e-3), 0.02, answered_ms=0.6) for _ in range(2)
    )
    _besides(baseline, "setup_ms", 2.0, 0.01)
    turns = PairedTurns(Batch("cuda", 5, queued=True), candidate, baseline)
    assert candidate_timing(turns).clock == "inner"


def test_many_lone_calls_may_cost_more_where_the_baselines_do_too():
    candidate, baseline = (_many_singles(_log(10.0, claimed=1.0, wander_ms=1e-3), 1.5) for _ in range(2))
    assert _scored(candidate, baseline, kind="cuda") == (1.0, "inner")
    baseline = _many_singles(_log(10.0, claimed=1.0, wander_ms=1e-3), 0.9)
    median_ms, clock = _scored(candidate, baseline, kind="cuda")
    assert (clock, median_ms) == ("single", pytest.approx(1.55, abs=0.1)), (
        "a baseline that gains excuses nothing"
    )


def _of_kinds(spiked_ms: float, plain_ms: float, *, claimed: float = 1.0, pairs: int = 9) -> PairedTurns:
    """Turns of both kinds in which the baseline takes five milliseconds."""
    turns = PairedTurns(Batch("cpu", 10))
    for kind in (True, False) * pairs:
        took = (spiked_ms if kind else plain_ms) + NOISE.uniform(0.0, 0.05)
        turns.add_batch(_turn(min(spiked_ms, took * claimed), took, 0.1), _turn(5.0, 5.0, 0.1), spiked=kind)
    return turns


@pytest.mark.parametrize("claimed", [1.0, 0.25])
@pytest.mark.parametrize("pairs", [3, 9])
def test_the_slower_kind_of_inputs_scores_also_where_claims_are_alike(claimed, pairs):
    for spiked_ms, plain_ms in ((1.25, 4.5), (4.5, 1.25)):
        turns = slower_kind(_of_kinds(spiked_ms, plain_ms, claimed=claimed, pairs=pairs))
        assert turns.spiked == [spiked_ms > plain_ms] * pairs
        assert min(turn.answered_ms for turn in turns.candidate.batches) >= 4.5


def test_kinds_that_take_as_long_score_together():
    turns = _of_kinds(4.5, 4.5)
    assert slower_kind(turns) is turns
    few = _of_kinds(1.0, 4.0, pairs=2)
    assert slower_kind(few) is few
