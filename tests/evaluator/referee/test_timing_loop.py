"""The timing loop, from turns as they may come: no process runs here."""

import itertools
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.claimed_time import Batch, Turn
from kernelwright.evaluator.referee.timing.timed_inputs import InputRecipe, TimedInputs
from kernelwright.evaluator.referee.timing.timed_outputs import OutputComparison, TimedOutputs
from kernelwright.evaluator.referee.timing.timing_loop import InterleavedTimer, Schedule, WrittenAhead
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status
from tests.evaluator.referee.timed_trials import LOOSE, made_trial


def _recipe(
    count: int,
    earlier: object = None,
    *,
    spiked: bool = True,
    given: dict[int, dict[int, torch.Tensor]] | None = None,
) -> InputRecipe:
    del earlier
    return InputRecipe(torch.zeros(count, dtype=torch.int64), 0, 1, {}, given=given or {})


def _varied_recipe(count: int) -> InputRecipe:
    return _recipe(count, given={call: {} for call in range(count)})


INPUTS = cast(TimedInputs, SimpleNamespace(recipe=_recipe, varies_structure=False, has_kinds=True))


def _timer(schedule: Schedule, took_ms: dict[str, float], mismatch: str = "") -> InterleavedTimer:
    """A timer whose workers take so long, by the names of their layouts."""
    device = SimpleNamespace(torch_device=torch.device(schedule.batch.kind))
    outputs = SimpleNamespace(compare=lambda *each: OutputComparison(mismatch, {}))
    timer: Any = InterleavedTimer(
        cast(Device, device), INPUTS, cast(TimedOutputs, outputs), schedule, random.Random(1)
    )

    def run(buffers: CallBuffers, recipe: object, **how: bool | int) -> tuple[Turn, list[torch.Tensor]]:
        del recipe, how
        ms = took_ms[buffers.layout]
        return Turn(ms, ms, ms), []

    timer._runner = SimpleNamespace(run=run)
    return cast(InterleavedTimer, timer)


def _buffers(name: str) -> CallBuffers:
    return CallBuffers(cast(WorkerProcess, None), name, [], [], 0, 0)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("untrusted", [True, False])
def test_only_who_may_merge_calls_is_timed_one_by_one(kind, untrusted):
    schedule = Schedule(Batch(kind, 10), 0.0, max_turns=6, call_timeout_s=5.0, untrusted=untrusted)
    timer, workers = _timer(schedule, {"one": 1.0, "other": 1.0}), (_buffers("one"), _buffers("other"))
    turns = timer.compare(*workers)
    one, other = turns.candidate, turns.baseline
    assert len(one.batches) == len(other.batches) > 0
    assert bool(one.single_calls) == (untrusted and kind == "cuda")
    timer.add_lone_calls(turns, *workers)
    assert bool(one.single_calls) == bool(other.single_calls) == untrusted


@pytest.mark.parametrize(
    ("call_ms", "longer_ms", "calls"),
    [
        (0.1, 0.2, policy.MAX_SHORT_SINGLE_CALLS),
        (1.0, 2.0, policy.MAX_SINGLE_CALLS["cpu"]),
        (0.1, 0.02, policy.MAX_SHORT_SINGLE_CALLS),
        (0.1, 0.0, policy.STEADY_VALUES),
    ],
)
def test_a_cpus_single_calls_come_last_and_begin_in_a_warm_process(call_ms, longer_ms, calls):
    """What a process works ahead while it is warmed up would help the batches that follow.

    They end early where the candidate's take as long as the baseline's.
    """
    schedule = Schedule(Batch("cpu", 10), 0.0, max_turns=6, call_timeout_s=5.0)
    timer: Any = _timer(schedule, {"one": 10 * call_ms, "other": 10 * call_ms})
    ran, run = [], timer._runner.run

    def watched(buffers: CallBuffers, recipe: InputRecipe, **more: bool) -> object:
        ran.append((recipe.count, more["is_lone"]))
        turn, outputs = run(buffers, recipe, **more)
        longer = longer_ms if more["is_lone"] and buffers is workers[0] else 0.0
        return replace(turn, claimed_ms=turn.claimed_ms + longer), outputs

    timer._runner = SimpleNamespace(run=watched)
    workers = _buffers("one"), _buffers("other")
    turns = timer.compare(*workers)
    assert set(ran) == {(10, False)}
    ran.clear()
    timer.add_lone_calls(turns, *workers)
    assert ran == [(1, True)] * 2 * calls


def test_who_lost_anyway_is_not_timed_one_by_one():
    schedule = Schedule(Batch("cpu", 10), 0.0, max_turns=6, call_timeout_s=5.0)
    timer, workers = _timer(schedule, {"one": 3.0, "other": 1.0}), (_buffers("one"), _buffers("other"))
    turns = timer.compare(*workers)
    timer.add_lone_calls(turns, *workers)
    assert turns.candidate.batches and not turns.candidate.single_calls


@pytest.mark.parametrize(("slower_ms", "turns"), [(1.0, 24), (60.0, 6)])
@pytest.mark.parametrize("slower", ["candidate", "baseline"])
def test_time_of_either_worker_counts_until_the_interval_is_looked_at(monkeypatch, slower_ms, turns, slower):
    """Or a candidate that is fifty times faster would wait for as long as the reference takes so often."""
    schedule = Schedule(Batch("cuda", 1), target_ms=300.0, max_turns=24, call_timeout_s=5.0)
    monkeypatch.setattr(policy, "HOPELESS_RATIO", 0.0)
    timer = _timer(schedule, {"candidate": 1.0, "baseline": 1.0} | {slower: slower_ms})
    done = timer.compare(_buffers("candidate"), _buffers("baseline"))
    assert len(done.candidate.batches) == len(done.baseline.batches) == turns


def test_timing_ends_early_for_a_candidate_without_hope():
    schedule = Schedule(Batch("cuda", 1), target_ms=3000.0, max_turns=24, call_timeout_s=5.0)
    timer = _timer(schedule, {"candidate": 11.0, "baseline": 1.0})
    done = timer.compare(_buffers("candidate"), _buffers("baseline"))
    assert len(done.candidate.batches) == policy.HOPELESS_TURNS


@pytest.mark.parametrize("untrusted", [True, False])
def test_turns_on_varied_inputs_are_compared_the_last_among_them_and_not_scored(untrusted):
    schedule = Schedule(Batch("cuda", 1), 0.0, max_turns=20, call_timeout_s=5.0, untrusted=untrusted)
    timer: Any = _timer(schedule, {"one": 1.0, "other": 1.0})
    timer._inputs = SimpleNamespace(
        recipe=_recipe, varied_recipe=_varied_recipe, varies_structure=True, has_kinds=False
    )
    seen: list[bool] = []
    timer._outputs = SimpleNamespace(
        compare=lambda own, other, recipe, earlier: (
            seen.append(bool(recipe.given)) or OutputComparison("", {})
        ),
    )
    turns = timer.compare(_buffers("one"), _buffers("other"))
    made = len(turns.candidate.batches) + len(turns.candidate.single_calls)
    assert seen.count(False) == (made if untrusted else 1)
    assert (seen[-1], any(seen[:-1])) == (untrusted, untrusted)


def test_outputs_of_every_turn_are_compared():
    schedule = Schedule(Batch("cpu", 10), 0.0, max_turns=6, call_timeout_s=5.0)
    with pytest.raises(CandidateFailed, match="wrong when timed: output 0") as raised:
        _timer(schedule, {"one": 1.0, "other": 1.0}, "output 0").compare(_buffers("one"), _buffers("other"))
    assert raised.value.status is Status.WRONG_VALUES


def _spoiled_timer(mismatches: list[str], *, queued: bool = True) -> tuple[InterleavedTimer, list[bool]]:
    """A timer whose turns compare like this, one after the other, and a list of which had outputs spoiled."""
    batch = Batch("cuda", 1, queued=queued)
    timer: Any = _timer(Schedule(batch, 0.0, max_turns=6, call_timeout_s=5.0), {"one": 1.0, "other": 1.0})
    found, spoiled, run = iter(mismatches), [], timer._runner.run

    def watched(buffers: CallBuffers, recipe: object, **how: bool) -> object:
        if buffers.layout == "one":
            spoiled.append(how["spoils"])
        return run(buffers, recipe, **how)

    timer._runner = SimpleNamespace(run=watched)
    timer._outputs = SimpleNamespace(compare=lambda *each: OutputComparison(next(found, ""), {}))
    return timer, spoiled


def test_who_writes_outputs_ahead_of_queued_calls_has_to_be_timed_with_launches():
    timer, spoiled = _spoiled_timer(["output 0", ""])
    with pytest.raises(WrittenAhead):
        timer.compare(_buffers("one"), _buffers("other"))
    assert spoiled == [True, False]


@pytest.mark.parametrize(
    ("mismatches", "queued", "turns"),
    [
        pytest.param(["output 0", "output 0"], True, [True, False], id="wrong by itself"),
        pytest.param(["", "output 0"], True, [True, True], id="wrong later"),
        pytest.param(["output 0", ""], False, [True], id="nothing is queued"),
    ],
)
def test_other_wrong_outputs_fail_a_candidate(mismatches, queued, turns):
    timer, spoiled = _spoiled_timer(mismatches, queued=queued)
    with pytest.raises(CandidateFailed, match="wrong when timed"):
        timer.compare(_buffers("one"), _buffers("other"))
    assert spoiled == turns


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_timing_ends_after_so_many_turns_however_wide_the_interval(kind):
    schedule = Schedule(Batch(kind, 1), target_ms=1e9, max_turns=5, call_timeout_s=5.0)
    done = _timer(schedule, {"one": 1.0, "other": 1.0}).compare(_buffers("one"), _buffers("other"))
    assert len(done.candidate.batches) == 5 * policy.TURNS_FACTOR[kind]


def test_a_cpu_takes_more_turns_before_it_is_without_hope():
    schedule = Schedule(Batch("cpu", 1), target_ms=3000.0, max_turns=24, call_timeout_s=5.0)
    timer = _timer(schedule, {"candidate": 11.0, "baseline": 1.0})
    done = timer.compare(_buffers("candidate"), _buffers("baseline"))
    assert len(done.candidate.batches) == policy.HOPELESS_TURNS * policy.TURNS_FACTOR["cpu"]


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_probe_takes_few_calls_and_of_slow_ones_a_single_one(kind):
    for ms, turns in ((1.0, policy.PROBE_TURNS[kind]), (600.0, 1)):
        timer: Any = _timer(Schedule(Batch(kind, 2), 0.0, max_turns=4, call_timeout_s=5.0), {"one": ms})
        counted, run = [], timer._runner.run
        timer._runner.run = lambda *each, counted=counted, run=run, **more: (
            counted.append(1) or run(*each, **more)
        )
        assert timer.probe(_buffers("one")) == (ms / 2, False)
        assert len(counted) == turns > 0


def test_an_interval_that_gets_tight_later_is_looked_at_again_soon():
    schedule = Schedule(Batch("cuda", 1), target_ms=0.0, max_turns=200, call_timeout_s=5.0)
    took: dict[str, float] = {"one": 1.0, "other": 1.0}
    timer: Any = _timer(schedule, took)
    run, first = timer._runner.run, iter([1.0, 3.0, 0.5, 2.0, 1.5, 4.0])

    def wavering(buffers: CallBuffers, recipe: object, **how: bool) -> tuple[Turn, list[torch.Tensor]]:
        if buffers.layout == "one":
            took["one"] = next(first, 1.0)
        assert not how["is_lone"]
        return cast("tuple[Turn, list[torch.Tensor]]", run(buffers, recipe, **how))

    timer._runner.run = wavering
    done = timer.compare(_buffers("one"), _buffers("other"))
    assert policy.FEWEST_TURNS < len(done.candidate.batches) < 60


@pytest.mark.parametrize(("candidate_ms", "turns"), [(1.0, 8), (1.3, 4), (0.7, 4)])
def test_a_candidate_that_surely_lost_or_won_is_timed_less(monkeypatch, candidate_ms, turns):
    """Every turn of the candidate is 6 % off the middle, this way and that: too wide for a close one."""
    monkeypatch.setattr(policy, "FEWEST_TURNS", 4)
    monkeypatch.setattr(policy, "LOST_INTERVAL", 0.08)
    monkeypatch.setitem(policy.WON_INTERVAL, "cuda", 0.08)
    schedule = Schedule(Batch("cuda", 10), 0.0, max_turns=8, call_timeout_s=5.0, untrusted=False)
    timer = _timer(schedule, {"one": candidate_ms, "other": 1.0})
    run, lengths = timer._runner.run, itertools.cycle((0.94, 1.06))

    def wavering(buffers: CallBuffers, recipe: object, **how: bool) -> tuple[Turn, list[torch.Tensor]]:
        assert not how["is_lone"]
        turn, outputs = cast("tuple[Turn, list[torch.Tensor]]", run(buffers, recipe, **how))
        ms = turn.claimed_ms * (next(lengths) if buffers.layout == "one" else 1.0)
        return Turn(ms, ms, ms), outputs

    timer._runner = SimpleNamespace(run=wavering)
    found = timer.compare(_buffers("one"), _buffers("other"))
    assert len(found.candidate.batches) == turns


@pytest.mark.parametrize(("queued", "turns"), [(True, 4), (False, 30)])
def test_the_interval_of_queued_calls_is_looked_at_however_short_they_are(monkeypatch, queued, turns):
    monkeypatch.setattr(policy, "FEWEST_TURNS", 4)
    monkeypatch.setattr(policy, "LOOK_FACTOR", 1.0)
    schedule = Schedule(Batch("cuda", 10, queued=queued), 30.0, max_turns=60, call_timeout_s=5.0)
    found = _timer(schedule, {"one": 1.0, "other": 1.0}).compare(_buffers("one"), _buffers("other"))
    assert len(found.candidate.batches) == turns


@pytest.mark.parametrize(("unclaimed_ms", "turns"), [(0.0, 6), (1.0, 30)])
def test_queued_calls_are_measured_as_long_as_others_where_they_are_charged(unclaimed_ms, turns):
    schedule = Schedule(Batch("cuda", 10, queued=True), 60.0, max_turns=60, call_timeout_s=5.0)
    timer: Any = _timer(schedule, {})

    def run(buffers: CallBuffers, recipe: object, **how: bool) -> tuple[Turn, list[torch.Tensor]]:
        del recipe, how
        measured_ms = 1.0 + unclaimed_ms * (buffers.layout == "one")
        return Turn(1.0, measured_ms, measured_ms), []

    timer._runner = SimpleNamespace(run=run)
    found = timer.compare(_buffers("one"), _buffers("other"))
    assert len(found.candidate.batches) == turns


@pytest.mark.parametrize("seed", range(20))
def test_some_trials_and_varied_inputs_come_in_the_turns_that_are_sure(monkeypatch, seed):
    monkeypatch.setattr(policy, "VARIED_TURN_CHANCE", 0.0)
    schedule = Schedule(Batch("cuda", 8), 1e9, max_turns=24, call_timeout_s=5.0)
    timer: Any = _timer(schedule, {"one": 1.0, "other": 1.0})
    timer._unseen = lambda: [made_trial("large", LOOSE) for _ in range(6)]
    timer._inputs = SimpleNamespace(
        **vars(INPUTS) | {"varies_structure": True, "varied_recipe": _varied_recipe}
    )
    timer._secret = random.Random(seed)
    done: list[tuple[int, bool, bool]] = []
    scored = [0]

    def run(buffers: CallBuffers, recipe: InputRecipe, **how: bool) -> tuple[Turn, list[torch.Tensor]]:
        del how
        outputs = torch.zeros(recipe.count, 8, 64)
        for call, leaves in recipe.given.items():
            outputs[call] = leaves.get(0, outputs[call])
        scored[0] += buffers.layout == "other" and not recipe.given and recipe.count == 8
        has_trial = any(recipe.given.values())
        done.append((scored[0], has_trial, bool(recipe.given) and not has_trial))
        return Turn(1.0, 1.0, 1.0), [outputs]

    timer._runner = SimpleNamespace(run=run)
    timer.compare(_buffers("one"), _buffers("other"))
    assert any(turn <= policy.FEWEST_TURNS for turn, has_trial, _ in done if has_trial)
    varied = [turn for turn, _, is_varied in done if is_varied]
    assert len(varied) == 4  # two of both workers
    assert varied[0] <= policy.FEWEST_TURNS


def test_elements_stand_out_in_every_other_batch_in_an_order_that_nobody_knows():
    schedule = Schedule(Batch("cpu", 1), 0.0, max_turns=8, call_timeout_s=5.0)
    timer = _timer(schedule, {"one": 1.0, "other": 1.0})
    done = timer.compare(_buffers("one"), _buffers("other"))
    pairs = [tuple(done.spiked[begin : begin + 2]) for begin in range(0, len(done.spiked) - 1, 2)]
    assert set(pairs) == {(True, False), (False, True)}


def test_every_unseen_trial_is_hidden_once_in_an_unscored_batch_and_compared_with_exact_outputs():
    trials = [made_trial("large", LOOSE) for _ in range(5)]
    schedule = Schedule(Batch("cuda", 8), 0.0, max_turns=20, call_timeout_s=5.0)
    timer: Any = _timer(schedule, {"one": 1.0, "other": 1.0})
    timer._unseen, places, errors = lambda: trials, [], [0.0]

    def run(buffers: CallBuffers, recipe: InputRecipe, **how: bool) -> tuple[Turn, list[torch.Tensor]]:
        del buffers, how
        outputs = torch.zeros(recipe.count, 8, 64)
        for call, leaves in recipe.given.items():
            outputs[call] = leaves[0] + errors[0]  # the reference returns its input
        places.extend(recipe.given)
        return Turn(1.0, 1.0, 1.0), [outputs]

    timer._runner = SimpleNamespace(run=run)
    turns = timer.compare(_buffers("one"), _buffers("other"))
    assert len(places) == len(trials)
    assert len(set(places)) > 1
    assert len(turns.candidate.batches) == len(turns.baseline.batches)
    errors[0] = 1e-2
    with pytest.raises(CandidateFailed, match="wrong when timed: output on large inputs"):
        timer.compare(_buffers("one"), _buffers("other"))


def test_some_calls_of_scored_batches_are_kept_to_be_compared_with_exact_outputs():
    schedule = Schedule(Batch("cpu", 10), 0.0, max_turns=6, call_timeout_s=5.0)
    timer: Any = _timer(schedule, {"one": 1.0, "other": 1.0})
    turns = timer.compare(_buffers("one"), _buffers("other"))
    assert len(turns.candidate.batches) > policy.EXACT_CALLS
    kept = timer.take_kept()
    assert len(kept) == len(set(map(id, kept))) == policy.EXACT_CALLS
    assert timer.take_kept() == []


@pytest.mark.parametrize("untrusted", [True, False])
def test_outputs_are_compared_in_every_turn_of_a_candidate_and_once_of_the_reference(untrusted):
    schedule = Schedule(Batch("cpu", 10), 0.0, max_turns=6, call_timeout_s=5.0, untrusted=untrusted)
    timer: Any = _timer(schedule, {"one": 1.0, "other": 1.0})
    compared: list[object] = []
    timer._outputs.compare = lambda *each: compared.append(each) or OutputComparison("", {})
    turns = timer.compare(_buffers("one"), _buffers("other"))
    assert len(turns.candidate.batches) > 1
    assert len(compared) == (len(turns.candidate.batches) if untrusted else 1)
    assert bool(timer.take_kept()) == untrusted


def test_workers_of_the_reference_that_disagree_are_told_apart():
    schedule = Schedule(Batch("cpu", 10), 0.0, max_turns=6, call_timeout_s=5.0, untrusted=False)
    with pytest.raises(CandidateFailed, match="wrong when timed: other values"):
        _timer(schedule, {"one": 1.0, "other": 1.0}, "other values").compare(
            _buffers("one"), _buffers("other")
        )


@pytest.mark.parametrize(("longer_ms", "calls_each_turn"), [(0.0, 1), (0.004, 2)])
def test_queued_calls_come_one_by_one_to_the_end_twice_in_doubt(longer_ms, calls_each_turn):
    schedule = Schedule(Batch("cuda", 10, queued=True), 0.0, max_turns=6, call_timeout_s=5.0)
    timer: Any = _timer(schedule, {"one": 0.1, "other": 0.1})
    lone: list[int] = []
    turns_seen = 0

    def run(buffers: CallBuffers, recipe: InputRecipe, **more: bool) -> object:
        nonlocal turns_seen
        is_lone = more["is_lone"]
        if buffers is workers[0]:
            turns_seen += not is_lone
            lone.extend([turns_seen] * is_lone)
        ms = 0.01 * recipe.count + (longer_ms if is_lone and buffers is workers[0] else 0.0)
        return Turn(ms, ms, ms), []

    timer._runner = SimpleNamespace(run=run)
    workers = _buffers("one"), _buffers("other")
    timer.compare(*workers)
    assert (len(lone), max(lone)) == (calls_each_turn * turns_seen, turns_seen)
