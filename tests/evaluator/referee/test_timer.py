"""The reference's own process, for as long as its candidates are timed against it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernelwright.evaluator import (
    Candidate,
    EvaluationConfig,
    Evaluator,
    EvaluatorError,
    ProblemError,
    Status,
    problem_from_source,
)
from kernelwright.evaluator.referee.timing import baselines
from kernelwright.evaluator.referee.timing.baselines import BaselineTimer, trusted
from kernelwright.evaluator.referee.timing.timer import CandidateTimer
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed, MeasurementDoubt

SOURCE = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(64, 64)]
"""


def test_a_reference_that_died_is_no_fault_of_the_next_candidate(tmp_path):
    problem = problem_from_source(SOURCE, "relu")
    candidate = Candidate(source=SOURCE.replace("class Model(", "class ModelNew("), backend="cpp")
    config = EvaluationConfig(baselines=("eager",), target_ms=5, max_turns=4, trials=1)
    with Evaluator(cache=tmp_path) as evaluator:
        assert evaluator.evaluate(problem, candidate, config).status is Status.PASSED
        (warm,) = evaluator._idle._problems.values()
        (referee,) = warm.idle
        (baseline,) = (one for one in referee._workers.workers.values() if one.role == "baseline")
        baseline.sandboxed.kill()
        with pytest.raises(EvaluatorError, match="the reference failed beside a candidate") as raised:
            evaluator.evaluate(problem, candidate, config)
        assert not isinstance(raised.value, ProblemError)
        assert evaluator.evaluate(problem, candidate, config).status is Status.PASSED


def test_a_ratio_is_measured_anew_once_it_may_be_wrong():
    assert trusted(known_ms=1.0, error=0.01, solo_ms=1.04, most=0.05)
    assert not trusted(known_ms=1.0, error=0.01, solo_ms=1.06, most=0.05)
    assert not trusted(known_ms=1.0, error=0.01, solo_ms=0.9, most=0.05)
    assert not trusted(known_ms=1.0, error=0.2, solo_ms=1.0, most=0.05)
    assert not trusted(known_ms=None, error=None, solo_ms=1.0, most=0.05)


@pytest.mark.parametrize(
    ("known", "processes", "compiled"),
    [
        ({}, 4, True),
        ({"compile_ratio_queued": 0.5, "process_spread_queued": 0.01}, 1, False),
        ({"compile_ratio": 0.5, "process_spread": 0.01}, 1, False),
        ({"process_spread_queued": 0.01}, 1, True),
    ],
)
def test_only_what_a_machine_does_not_know_yet_needs_processes(monkeypatch, known, processes, compiled):
    """Whether it is known of queued calls or of others, since only one of them is ever measured."""
    monkeypatch.setattr(baselines, "start", lambda ground, role: object())
    timer: Any = object.__new__(BaselineTimer)
    timer._ground = SimpleNamespace(driver=SimpleNamespace(call=lambda op, **fields: known))
    timer._config = EvaluationConfig(baselines=("eager", "compile"))
    timer._bench = SimpleNamespace(lay_out=lambda side: side)
    timer._kind, timer._started, timer._compiled = "cuda", [], None
    timer._furnish = timer._compile = lambda *args, **options: None
    timer.start()
    assert (len(timer._started), timer._compiled is not None) == (processes, compiled)


class _Scripted(CandidateTimer):
    """A timer whose duels end as told: by which clock, or in which verdict."""

    def __init__(self, *ends: str | Status | MeasurementDoubt):
        self._notes = []
        self.ends = list(ends)
        self._kind = "cuda"
        self._judge: Callable[..., Any] | None = None
        self._queued = False

    def _duel(self, lane: Any) -> Any:
        end = self.ends.pop(0)
        if isinstance(end, MeasurementDoubt):
            raise end
        if isinstance(end, Status):
            raise CandidateFailed(end, "")
        end, _, speedup = end.partition(" ")
        self._judge = lambda known: end
        measured = SimpleNamespace(candidate=SimpleNamespace(clock=end), speedup=float(speedup or 1.0))
        measured.of = lane.name if lane.gate else f"{lane.name}, launched"
        return measured

    def timed(self) -> tuple[str, str]:
        """Which process scored, and by which clock; what is told of it later must be about the same."""
        first, second = (SimpleNamespace(name=name, gate="shut") for name in ("first", "second"))
        found = self.time(cast(CallBuffers, first), lambda: cast(CallBuffers, second))
        assert self._judge is not None
        assert self._judge(None) == found.candidate.clock
        return cast(str, found.of), found.candidate.clock


def test_claims_that_hold_are_enough():
    assert _Scripted("inner").timed() == ("first", "inner")


@pytest.mark.parametrize("clock", ["outer", "single"])
def test_doubted_claims_that_hold_in_a_second_process_score_there(clock):
    timer = _Scripted(clock, "inner")
    assert timer.timed() == ("second", "inner")
    assert len(timer._notes) == 1


def test_a_process_that_cannot_be_right_is_heard_again():
    timer = _Scripted(MeasurementDoubt(Status.TAMPERED, "the device was busy"), "inner")
    assert timer.timed() == ("second", "inner")
    assert len(timer._notes) == 1


@pytest.mark.parametrize("second", ["outer", MeasurementDoubt(Status.TAMPERED, "again"), Status.TIMED_OUT])
def test_who_cannot_be_right_twice_has_cheated(second):
    with pytest.raises(MeasurementDoubt, match="the device was busy"):
        _Scripted(MeasurementDoubt(Status.TAMPERED, "the device was busy"), second).timed()


@pytest.mark.parametrize(
    "ends",
    [
        ("outer", "outer"),
        ("single", "outer"),
        ("outer", "inner 0.9"),
        ("outer", MeasurementDoubt(Status.TAMPERED, "its claims")),
        ("outer", Status.TIMED_OUT),
        (Status.OUT_OF_MEMORY,),
        (Status.TIMED_OUT,),
    ],
)
def test_claims_doubted_twice_score_by_our_clock(ends):
    """Nor does it help to be slower with one's launches, or to be doubted there as well."""
    timer = _Scripted("outer", *ends)
    assert timer.timed() == ("first", "outer")
    assert not timer._notes
    assert not timer.ends


def test_who_is_doubted_behind_a_gate_alone_is_timed_with_its_launches():
    timer = _Scripted("single 0.1", "outer 0.1", "inner 0.7")
    assert timer.timed() == ("second, launched", "inner")
    assert "behind a gate" in timer._notes[0]


def test_on_a_cpu_nobody_else_is_asked():
    timer = _Scripted("outer", "inner")
    timer._kind = "cpu"
    assert timer.timed() == ("first", "outer")


def test_what_is_wrong_in_the_second_process_is_wrong():
    with pytest.raises(CandidateFailed) as raised:
        _Scripted("outer", Status.WRONG_VALUES).timed()
    assert raised.value.status is Status.WRONG_VALUES
