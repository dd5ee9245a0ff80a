"""Which clock scores, from turns as they may come: no process runs here."""

import random
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.devices.cpu import CpuDevice
from kernelwright.evaluator.referee.timing.interleaved_timer import InterleavedTimer, Schedule
from kernelwright.evaluator.referee.timing.timed_inputs import TimedInputs
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.timed_run import RunResult
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess

NOISE = random.Random(4)
GPU = cast(Device, SimpleNamespace(torch_device=torch.device("cuda", 0)))  # only its kind is asked for
SHORT_TURNS, SHORT_CALLS = 18, 36


def _lane(work_ms: float, *, claimed: float, wander_ms: float, turns: int = 18) -> CallBuffers:
    """A side whose calls take `work_ms` a turn and that claims a share of it."""
    ran = [
        RunResult(work_ms * claimed, work_ms + 0.2 + NOISE.uniform(0.0, wander_ms), 0.1, "", "")
        for _ in range(turns)
    ]
    side = cast(WorkerProcess, None)  # nothing is asked of it
    lane = CallBuffers(side, "time", [], [], 0, 0)
    lane.turns = ran
    return lane


def _scored(
    candidate: CallBuffers,
    baseline: CallBuffers,
    *,
    device: Device | None = None,
    count: int = 10,
    lead: int = 0,
) -> tuple[float, str]:
    schedule = Schedule(count=count, target_ms=20.0, max_turns=6, call_timeout_s=5.0, lead=lead)
    clock = InterleavedTimer(device or CpuDevice(), cast(TimedInputs, None), schedule, random.Random(1))
    ours, _ = clock.timing(candidate, baseline)
    return ours.median_ms, ours.clock


@pytest.mark.parametrize("singles", [True, False])
def test_only_who_may_merge_calls_is_timed_one_by_one(monkeypatch, singles):
    schedule = Schedule(count=10, target_ms=0.0, max_turns=6, call_timeout_s=5.0, singles=singles)
    ring = SimpleNamespace(
        recipe=lambda count: SimpleNamespace(count=count),
        compare=lambda *each: SimpleNamespace(mismatch="", flipped={}),
    )
    clock = InterleavedTimer(CpuDevice(), cast(TimedInputs, ring), schedule, random.Random(1))
    monkeypatch.setattr(clock, "_visit", lambda lane, recipe: (RunResult(1.0, 1.2, 0.1, "", ""), []))
    one, other = (_lane(5.0, claimed=1.0, wander_ms=0.0, turns=0) for _ in range(2))
    clock.duel(one, other)
    assert len(one.turns) == len(other.turns) > 0
    assert bool(one.singles) == bool(other.singles) == singles


@pytest.mark.parametrize(("slower_ms", "turns"), [(1.0, 24), (60.0, 6)])
@pytest.mark.parametrize("is_candidate", [True, False])
def test_time_of_either_side_counts_until_the_interval_is_looked_at(
    monkeypatch, slower_ms, turns, is_candidate
):
    """Or a candidate that is fifty times faster would wait for as long as the reference takes so often."""
    schedule = Schedule(count=1, target_ms=300.0, max_turns=24, call_timeout_s=5.0)
    ring = SimpleNamespace(
        recipe=lambda count: SimpleNamespace(count=count),
        compare=lambda *each: SimpleNamespace(mismatch="", flipped={}),
    )
    clock = InterleavedTimer(GPU, cast(TimedInputs, ring), schedule, random.Random(1))
    one, other = (_lane(5.0, claimed=1.0, wander_ms=0.0, turns=0) for _ in range(2))
    took_ms = {id(one): 1.0, id(other): 1.0} | {id(one if is_candidate else other): slower_ms}

    def visit(lane, recipe):
        return RunResult(took_ms[id(lane)], took_ms[id(lane)], 0.0, "", ""), []

    monkeypatch.setattr(clock, "_visit", visit)
    monkeypatch.setattr("kernelwright.evaluator.referee.timing.interleaved_timer._HOPELESS", 0.0)
    clock.duel(one, other)
    assert len(one.turns) == len(other.turns) == turns


def test_an_honest_claim_scores():
    median_ms, clock = _scored(
        _lane(5.0, claimed=1.0, wander_ms=0.02), _lane(6.0, claimed=1.0, wander_ms=0.02)
    )
    assert clock == "inner"
    assert median_ms == 0.5


def test_a_claim_of_nothing_scores_by_our_clock():
    median_ms, clock = _scored(
        _lane(5.0, claimed=0.0, wander_ms=0.02), _lane(5.0, claimed=1.0, wander_ms=0.02)
    )
    assert clock == "outer"
    assert median_ms > 0.45


@pytest.mark.parametrize("device", [CpuDevice(), GPU])
@pytest.mark.parametrize("claimed", [0.0, 0.4])
@pytest.mark.parametrize("lies", [5, 9, 13])
def test_lies_in_some_turns_are_not_cleared_by_the_others(device, claimed, lies):
    """Of eighteen; on a CPU the quicker quarter scores."""
    candidate, honest = (_lane(5.0, claimed=share, wander_ms=0.02) for share in (claimed, 1.0))
    candidate.turns[lies:] = honest.turns[lies:]
    NOISE.shuffle(candidate.turns)
    median_ms, _ = _scored(candidate, _lane(5.0, claimed=1.0, wander_ms=0.02), device=device)
    assert median_ms > 0.9 * 0.5


@pytest.mark.parametrize("device", [CpuDevice(), GPU])
@pytest.mark.parametrize("late", [7, 11, 15])
def test_work_that_is_collected_in_some_turns_is_part_of_the_time(device, late):
    """Of eighteen: what is typical of claims, and of collecting, is typical of no turn."""
    candidate, honest = (_lane(5.0, claimed=1.0, wander_ms=0.02) for _ in range(2))
    candidate.turns[:late] = [
        RunResult(0.5, 0.7, 4.6 + NOISE.uniform(0.0, 0.02), "", "") for _ in range(late)
    ]
    NOISE.shuffle(candidate.turns)
    median_ms, _ = _scored(candidate, honest, device=device)
    assert median_ms > 0.9 * 0.5


def test_work_hidden_in_three_places_by_turns_is_part_of_the_time():
    """A third each: collected, and queued to run while inputs are written or taken away."""
    candidate, honest = (_lane(5.0, claimed=1.0, wander_ms=0.02) for _ in range(2))
    for lane in (candidate, honest):
        lane.published_ms, lane.withdrawn_ms = (
            [1.0 + NOISE.uniform(0.0, 0.02) for _ in range(18)] for _ in "ab"
        )
    places = ["collected", "published", "withdrawn"] * 6
    NOISE.shuffle(places)
    for turn, hidden in enumerate(places):
        candidate.turns[turn] = RunResult(0.5, 0.7, 4.6 if hidden == "collected" else 0.1, "", "")
        candidate.published_ms[turn] += 4.5 * (hidden == "published")
        candidate.withdrawn_ms[turn] += 4.5 * (hidden == "withdrawn")
    median_ms, _ = _scored(candidate, honest, device=GPU)
    assert median_ms > 0.9 * 0.5


def test_lone_calls_that_are_paid_for_while_they_are_collected_score_as_they_cost():
    candidate = _with_singles(_lane(3.0, claimed=1.0, wander_ms=0.02), 0.01, 0.05)
    candidate.singles = [RunResult(0.01, 0.21, 1.1 + NOISE.uniform(0.0, 0.05), "", "") for _ in range(6)]
    median_ms, clock = _scored(candidate, _with_singles(_lane(10.0, claimed=1.0, wander_ms=0.02), 1.0, 0.05))
    assert clock == "single"
    assert median_ms == pytest.approx(1.0, abs=0.15)


def test_a_noisy_machine_is_no_excuse_for_a_claim_of_nothing():
    median_ms, clock = _scored(
        _lane(5.0, claimed=0.0, wander_ms=8.0), _lane(5.0, claimed=1.0, wander_ms=40.0)
    )
    assert clock == "outer" or median_ms > 0.2


def _with_singles(lane: CallBuffers, lone_ms: float, wander_ms: float) -> CallBuffers:
    """Its unannounced batches of one call."""
    lane.singles = [
        RunResult(lone_ms, lone_ms + 0.2 + NOISE.uniform(0.0, wander_ms), 0.1, "", "") for _ in range(6)
    ]
    return lane


def test_calls_merged_within_a_batch_score_as_they_cost_alone():
    """Ten calls together cost two thirds of ten calls alone."""
    candidate = _with_singles(_lane(7.0, claimed=1.0, wander_ms=0.02), 1.05, 0.05)
    median_ms, clock = _scored(candidate, _with_singles(_lane(10.0, claimed=1.0, wander_ms=0.02), 1.0, 0.05))
    assert clock == "single"
    assert median_ms == pytest.approx(1.05, abs=0.06)


def test_a_lone_call_may_cost_more_where_the_baselines_does_too():
    candidate = _with_singles(_lane(7.0, claimed=1.0, wander_ms=0.02), 1.05, 0.05)
    median_ms, clock = _scored(candidate, _with_singles(_lane(10.0, claimed=1.0, wander_ms=0.02), 1.4, 0.05))
    assert (clock, median_ms) == ("inner", 0.7)


def _short(
    *, batched_ms: float, lone_ms: float, answered_ms: float = 1.0, wander_ms: float = 0.3
) -> CallBuffers:
    """Calls of less than 0.1 ms, where waking a process takes ten times as long."""
    lane = _lane(0.0, claimed=1.0, wander_ms=0.0, turns=0)
    for made, turns, work_ms in (
        (lane.turns, SHORT_TURNS, 100 * batched_ms),
        (lane.singles, SHORT_CALLS, lone_ms),
    ):
        for _ in range(turns):
            inner_ms = work_ms + NOISE.uniform(0.0, 0.03)
            made.append(
                RunResult(inner_ms, inner_ms + answered_ms + NOISE.uniform(0.0, wander_ms), 0.1, "", "")
            )
    return lane


def test_short_calls_that_a_batch_merges_gain_nothing():
    """Ten small operations, 0.08 ms: a hundred calls are computed as one."""
    candidate, baseline = _short(batched_ms=0.0115, lone_ms=0.22), _short(batched_ms=0.08, lone_ms=0.2)
    median_ms, clock = _scored(candidate, baseline, count=100)
    assert clock == "single"
    assert median_ms > 0.08


def test_short_calls_of_the_same_code_are_not_charged():
    """A lone call runs cold code, and a process may answer a little later as long as it lives."""
    for answered_ms in (0.95, 1.0, 1.08):
        candidate = _short(batched_ms=0.08, lone_ms=0.21, answered_ms=answered_ms)
        median_ms, clock = _scored(candidate, _short(batched_ms=0.08, lone_ms=0.2), count=100)
        assert (clock, median_ms) == ("inner", pytest.approx(0.08, rel=0.01))


def test_what_runs_while_inputs_are_written_is_part_of_the_time():
    for written in ("published_ms", "withdrawn_ms"):
        candidate, baseline = (_lane(work, claimed=1.0, wander_ms=0.02) for work in (5.0, 10.0))
        setattr(candidate, written, [8.0 + NOISE.uniform(0.0, 0.1) for _ in range(18)])
        setattr(baseline, written, [3.0 + NOISE.uniform(0.0, 0.1) for _ in range(18)])
        median_ms, clock = _scored(candidate, baseline, device=GPU)
        assert clock == "outer"
        assert median_ms == pytest.approx(1.0, rel=0.05)


def test_writing_inputs_takes_no_longer_by_chance():
    candidate, baseline = (_lane(5.0, claimed=1.0, wander_ms=0.02) for _ in range(2))
    candidate.published_ms = [3.0 + NOISE.uniform(0.0, 1.0) for _ in range(18)]
    baseline.published_ms = [3.0 + NOISE.uniform(0.0, 1.0) for _ in range(18)]
    assert _scored(candidate, baseline, device=GPU) == (0.5, "inner")


def _led(*, work_ms: float, moved_ms: float = 0.0, first_ms: float = 0.0) -> CallBuffers:
    """Batches of one scored call after an unscored one; `moved_ms` of the scored call's work runs in that."""
    lane = _lane(0.0, claimed=1.0, wander_ms=0.0, turns=0)
    lane.turns = [
        RunResult(work_ms - moved_ms, 2 * work_ms + first_ms + 0.2 + NOISE.uniform(0.0, 0.02), 0.1, "", "")
        for _ in range(18)
    ]
    return lane


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
        candidate = _lane(work_ms, claimed=claimed, wander_ms=wander_ms)
        baseline = _lane(work_ms, claimed=1.0, wander_ms=wander_ms)
        median_ms, clock = _scored(candidate, baseline, device=GPU, count=2)
        assert clock == "outer"
        scores.append(2 * median_ms / work_ms)
    assert sum(scores) / len(scores) > 0.9
    assert min(scores) > 0.2


def test_short_batches_that_our_clock_can_tell_of_score_as_claimed():
    for work_ms in (0.5, 2.0):
        lanes = [_lane(work_ms, claimed=1.0, wander_ms=0.02) for _ in range(2)]
        assert _scored(lanes[0], lanes[1], device=GPU, count=2) == (work_ms / 2, "inner")
