"""The timing loop, from turns as they may come: no process runs here."""

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.claimed_time import Batch, Turn
from kernelwright.evaluator.referee.timing.interleaved_timer import InterleavedTimer, Schedule
from kernelwright.evaluator.referee.timing.timed_inputs import TimedInputs
from kernelwright.evaluator.referee.timing.timed_outputs import OutputComparison, TimedOutputs
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status

INPUTS = cast(TimedInputs, SimpleNamespace(recipe=lambda count: SimpleNamespace(count=count)))


def _timer(schedule: Schedule, took_ms: dict[str, float], mismatch: str = "") -> InterleavedTimer:
    """A timer whose workers take so long, by the names of their layouts."""
    device = SimpleNamespace(torch_device=torch.device(schedule.batch.kind))
    outputs = SimpleNamespace(compare=lambda *each: OutputComparison(mismatch, {}))
    timer: Any = InterleavedTimer(
        cast(Device, device), INPUTS, cast(TimedOutputs, outputs), schedule, random.Random(1)
    )

    def run(buffers: CallBuffers, recipe: object, *, lead: int) -> tuple[Turn, list[torch.Tensor]]:
        del recipe, lead
        ms = took_ms[buffers.layout]
        return Turn(ms, ms, ms), []

    timer._runner = SimpleNamespace(run=run)
    return cast(InterleavedTimer, timer)


def _buffers(name: str) -> CallBuffers:
    return CallBuffers(cast(WorkerProcess, None), name, [], [], 0, 0)


@pytest.mark.parametrize("single_calls", [True, False])
def test_only_who_may_merge_calls_is_timed_one_by_one(single_calls):
    schedule = Schedule(Batch("cpu", 10), 0.0, max_turns=6, call_timeout_s=5.0, single_calls=single_calls)
    turns = _timer(schedule, {"one": 1.0, "other": 1.0}).compare(_buffers("one"), _buffers("other"))
    one, other = turns.candidate, turns.baseline
    assert len(one.batches) == len(other.batches) > 0
    assert bool(one.single_calls) == bool(other.single_calls) == single_calls


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


def test_outputs_of_every_turn_are_compared():
    schedule = Schedule(Batch("cpu", 10), 0.0, max_turns=6, call_timeout_s=5.0)
    with pytest.raises(CandidateFailed, match="wrong when timed: output 0") as raised:
        _timer(schedule, {"one": 1.0, "other": 1.0}, "output 0").compare(_buffers("one"), _buffers("other"))
    assert raised.value.status is Status.WRONG_VALUES
