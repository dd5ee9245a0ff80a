"""The reference's own process, for as long as its candidates are timed against it."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from kernelwright.evaluator import (
    Candidate,
    EvaluationConfig,
    Evaluator,
    EvaluatorError,
    ProblemError,
    Status,
    problem_from_source,
)
from kernelwright.evaluator.referee.timing.baseline import baseline_timer
from kernelwright.evaluator.referee.timing.baseline.baseline_cache import BaselineCache
from kernelwright.evaluator.referee.timing.baseline.baseline_timer import BaselineTimer, still_holds
from kernelwright.evaluator.referee.timing.baseline.compiled_reference import CompiledReference
from kernelwright.evaluator.referee.timing.candidate_timer import CandidateTimer, TimedCandidate
from kernelwright.evaluator.referee.timing.claimed_time import Batch
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.driver_link import DriverLink
from kernelwright.evaluator.referee.worker.launch_gate import LaunchGate
from kernelwright.evaluator.schema.errors import DeviceFull

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
        (warm,) = evaluator._referees._problems.values()
        (referee,) = warm.idle
        # The others were compared with the first, and have ended.
        baseline, *_ = (one for one in referee._workers.workers.values() if one.role == "baseline")
        baseline.sandboxed.kill()
        with pytest.raises(EvaluatorError, match="the reference failed beside a candidate") as raised:
            evaluator.evaluate(problem, candidate, config)
        assert not isinstance(raised.value, ProblemError)
        assert evaluator.evaluate(problem, candidate, config).status is Status.PASSED


def test_a_ratio_is_measured_anew_once_it_may_be_wrong():
    assert still_holds(known_ms=1.0, error=0.01, solo_ms=1.04, most=0.05)
    assert not still_holds(known_ms=1.0, error=0.01, solo_ms=1.06, most=0.05)
    assert not still_holds(known_ms=1.0, error=0.01, solo_ms=0.9, most=0.05)
    assert not still_holds(known_ms=1.0, error=0.2, solo_ms=1.0, most=0.05)
    assert not still_holds(known_ms=None, error=None, solo_ms=1.0, most=0.05)


class _Compilations(CompiledReference):
    """A reference whose compilations end as told, one after the other, and then well."""

    def __init__(self, *ends: CandidateFailed) -> None:
        super().__init__(cast(Any, None), cast(Any, None))
        self.ends = list(ends)
        self.asked: list[str] = []

    def _compile(self, *, shares: bool) -> Any:
        self.asked.append("compile" if shares else "compile alone")
        if self.ends:
            raise self.ends.pop(0)
        return SimpleNamespace(close=lambda: None)


def _baseline_timer(known: dict[str, float], compiled: CompiledReference, kind: str = "cuda") -> Any:
    timer: Any = object.__new__(BaselineTimer)
    driver = SimpleNamespace(recall=lambda: known, hold=lambda **how: 0.0, ask=lambda request: None)
    timer._context = SimpleNamespace(driver=driver)
    timer._cache = BaselineCache(cast(DriverLink, driver))
    config = EvaluationConfig(baselines=("eager", "compile"))
    timer._session = SimpleNamespace(lay_out=lambda worker: worker, config=config)
    timer._kind, timer._started, timer._compiled, timer._measured = kind, [], compiled, None
    timer._load = lambda worker: None
    return timer


@pytest.mark.parametrize(
    ("known", "kind", "processes", "compiled"),
    [
        ({}, "cpu", 3, True),
        ({}, "cuda", 1, True),
        ({"compile_ratio": 0.5, "process_spread": 0.01}, "cpu", 1, False),
        ({"compile_ratio_queued": 0.5}, "cuda", 1, False),
        ({"process_spread": 0.01}, "cpu", 1, True),
    ],
)
def test_only_what_a_machine_does_not_know_yet_needs_processes(monkeypatch, known, kind, processes, compiled):
    """A ratio may be known of queued calls or of others, since only one of them is ever measured."""
    monkeypatch.setattr(baseline_timer, "start", lambda context, role: object())
    compilations = _Compilations()
    timer = _baseline_timer(known, compilations, kind)
    timer.start_processes()
    assert (len(timer._started), compilations.asked == ["compile"]) == (processes, compiled)
    timer._started, compilations.asked = [], []
    timer._session.config = EvaluationConfig(baselines=("eager",))
    timer.start_processes()
    assert (len(timer._started), compilations.asked) == (processes, []), "nobody asked for a compiled one"


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_what_fails_to_compile_is_tried_once_more_and_never_with_the_device_alone(monkeypatch, failures):
    monkeypatch.setattr(baseline_timer, "start", lambda context, role: object())
    ends = [CandidateFailed(Status.RUNTIME_ERROR, f"no {n}", traceback="") for n in range(failures)]
    compilations = _Compilations(*ends)
    timer = _baseline_timer({}, compilations)
    timer.start_processes()
    timer._compile_ratio = lambda *given: timer._reference(compiled=True)
    if failures == 2:
        with pytest.raises(CandidateFailed, match="no 1"):
            timer._compile_ratio_with_retry(None, 1, None, False)
    else:
        timer._compile_ratio_with_retry(None, 1, None, False)
    assert compilations.asked == ["compile", "compile"][: 1 + bool(failures)]


def test_processes_that_will_be_compared_are_started_once(monkeypatch):
    started: list[Any] = []

    def start(context: Any, role: str) -> Any:
        if len(started) == 2:
            raise CandidateFailed(Status.OUT_OF_MEMORY, "full")
        started.append(SimpleNamespace(close=lambda: None))
        return started[-1]

    monkeypatch.setattr(baseline_timer, "start", start)
    timer = _baseline_timer({}, _Compilations())
    timer.start_compared()
    timer.start_compared()
    assert timer._started == started, "of the third, the failure shows where it is needed"


_DOUBT, _AGAIN = "doubt its claims", "doubt again"


class _Compiling(BaselineTimer):
    """Baselines whose compiled process ends as told, time after time."""

    def __init__(self, *ends: Exception | float):
        self.ends = list(ends)
        self._compiled = _Compilations()
        self._context = cast(Any, SimpleNamespace(device=SimpleNamespace(torch_device=torch.device("cuda"))))
        self._context.device.trim = lambda *, above=0: None
        self._session = cast(Any, SimpleNamespace(others_evicted=False))

    def _compile_ratio(self, *given: object) -> float:
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    def ratio(self) -> float:
        """The ratio, as found for any baseline."""
        nothing: Any = None
        return self._compile_ratio_with_retry(nothing, 1, nothing, False)


_UNSUPPORTED = CandidateFailed(Status.RUNTIME_ERROR, "Unsupported: an operator", traceback="")
_DIED = CandidateFailed(Status.RUNTIME_ERROR, "the process died: ended by SIGKILL")


def test_a_baseline_that_failed_once_is_measured_again():
    assert _Compiling(_DIED, 0.5).ratio() == 0.5
    with pytest.raises(CandidateFailed, match="SIGKILL"):
        _Compiling(_DIED, _DIED, 0.5).ratio()


@pytest.mark.parametrize(
    "shortage", [torch.OutOfMemoryError("full"), CandidateFailed(Status.OUT_OF_MEMORY, "full")]
)
def test_a_baseline_without_memory_beside_others_is_measured_once_they_are_gone(shortage):
    with pytest.raises(DeviceFull, match="full"):
        _Compiling(shortage, 0.5).ratio()


def test_only_the_reason_that_a_reference_gives_is_a_fact_of_its_problem():
    assert "an operator" in baseline_timer._compile_failure_reason(_UNSUPPORTED)
    assert "wrong" in baseline_timer._compile_failure_reason(CandidateFailed(Status.WRONG_VALUES, "wrong"))
    full = CandidateFailed(Status.OUT_OF_MEMORY, "CUDA out of memory", traceback="")
    for failure in (_DIED, full, CandidateFailed(Status.TIMED_OUT, "no answer within 300 s")):
        with pytest.raises(EvaluatorError, match="so nothing is scored"):
            baseline_timer._compile_failure_reason(failure)


@pytest.mark.parametrize("disturbed", [False, True])
def test_what_was_measured_beside_other_programs_is_not_remembered(disturbed):
    stored: list[Any] = []
    timer: Any = object.__new__(BaselineTimer)
    driver = SimpleNamespace(recall=lambda: {}, remember=stored.append)
    timer._cache, timer._disturbed = BaselineCache(cast(DriverLink, driver)), disturbed
    timer._remember(True, process_spread=0.01)
    assert stored == ([] if disturbed else [{"process_spread_queued": 0.01}])


class _Scripted(CandidateTimer):
    """A timer whose measurements end as told: by which clock and speedup, in doubt, or in which failure.

    An end after `!` is that of a process that could not queue its calls. Of its timed calls, `kept` are the
    errors of those that are compared with exact outputs.
    """

    def __init__(self, *ends: str | Status, kept: tuple[str, ...] = ()):
        self.ends = list(ends)
        self.calls: Any = kept
        self._session = cast(Any, SimpleNamespace(outputs=SimpleNamespace(errs_beside_exact=str)))
        self._kind = "cuda"
        self._last = None
        self._kept = []
        self.baselines = cast(BaselineTimer, SimpleNamespace(notes=[]))

    def _measure(self, candidate: CallBuffers) -> TimedCandidate:
        end = self.ends.pop(0)
        self._kept += self.calls
        if isinstance(end, Status):
            raise CandidateFailed(end, "")
        if end.startswith("!"):
            candidate.stop_queueing()
        clock, _, speedup = end.lstrip("!").partition(" ")
        doubt, speedup = (speedup, "") if clock == "doubt" else ("", speedup)
        name = candidate.layout if candidate.gate else f"{candidate.layout}, launched"
        timing: Any = SimpleNamespace(clock=clock)
        found: Any = SimpleNamespace(name=name, speedup=float(speedup or 1.0))
        batch = Batch("cuda", 1, queued=candidate.gate is not None)
        return TimedCandidate(timing, timing, batch, found, doubt=doubt)

    def timed(self) -> tuple[str, str]:
        """Name the process that scored, and its clock."""
        first, second = (CallBuffers(cast(Any, None), name, [], [], 0, 0) for name in ("first", "second"))
        for buffers in (first, second):
            buffers.queue_behind(LaunchGate(0, torch.zeros(1)))
        found: Any = self.time(first, lambda: second)
        assert self._last is not None
        assert self._last.measurement is found
        return cast(str, found.name), self._last.candidate.clock


def test_claims_that_hold_are_enough():
    assert _Scripted("inner").timed() == ("first", "inner")


@pytest.mark.parametrize("clock", ["outer", "single"])
def test_doubted_claims_that_hold_in_a_second_process_score_there(clock):
    timer = _Scripted(clock, "inner")
    assert timer.timed() == ("second", "inner")
    assert len(timer.notes) == 1


def test_a_process_that_cannot_be_right_is_heard_again():
    timer = _Scripted(_DOUBT, "inner")
    assert timer.timed() == ("second", "inner")
    assert len(timer.notes) == 1


@pytest.mark.parametrize("ends", [(_AGAIN, _AGAIN), (Status.TIMED_OUT,)])
def test_who_cannot_be_right_twice_has_cheated(ends):
    with pytest.raises(CandidateFailed, match="its claims"):
        _Scripted(_DOUBT, *ends).timed()


def test_timed_calls_that_were_kept_are_compared_with_exact_outputs():
    timer = _Scripted("inner", kept=("", "it errs"))
    assert timer.timed() == ("first", "inner")
    with pytest.raises(CandidateFailed, match="right when verified, wrong when timed: it errs"):
        timer.compare_with_exact()
    timer.compare_with_exact()  # they were looked at


def test_a_wrong_answer_says_more_than_claims_that_cannot_be_right():
    with pytest.raises(CandidateFailed, match="it errs"):
        _Scripted(_DOUBT, _AGAIN, _AGAIN, kept=("it errs",)).timed()


@pytest.mark.parametrize(
    ("ends", "scored"),
    [
        (("outer", _AGAIN), ("second", "outer")),
        (("outer 0.9", "outer 0.7"), ("second", "outer")),
        ((_AGAIN, "outer"), ("second, launched", "outer")),
        ((_AGAIN, "inner"), ("second, launched", "inner")),
    ],
)
def test_who_is_charged_in_a_second_process_has_not_cheated_twice(ends, scored):
    """Streams that wait for each other may look busy behind a gate."""
    assert _Scripted(_DOUBT, *ends).timed() == scored


@pytest.mark.parametrize(
    "ends",
    [
        ("outer", "outer"),
        ("single", "outer"),
        ("outer", "inner 0.9"),
        ("outer", _DOUBT),
        ("outer", Status.TIMED_OUT),
        (Status.OUT_OF_MEMORY,),
        (Status.TIMED_OUT,),
    ],
)
def test_claims_doubted_twice_score_by_our_clock(ends):
    """Nor does it help to be slower with one's launches, or to be doubted there as well."""
    timer = _Scripted("outer", *ends)
    assert timer.timed() == ("first", "outer")
    assert not timer.notes
    assert not timer.ends


def test_who_is_doubted_behind_a_gate_alone_is_timed_with_its_launches():
    timer = _Scripted("single 0.1", "outer 0.1", "inner 0.7")
    assert timer.timed() == ("second, launched", "inner")
    assert "behind a gate" in timer.notes[0]


def test_launches_and_charges_are_taken_where_they_are_less_than_the_charges_behind_a_gate():
    timer = _Scripted("single 0.1", "outer 0.1", "outer 0.7")
    assert timer.timed() == ("second, launched", "outer")
    assert "behind a gate" in timer.notes[0]


@pytest.mark.parametrize(
    ("ends", "scored"),
    [
        (("outer 0.7", "!inner 0.3"), ("first", "outer")),
        (("outer 0.7", "!single 0.8"), ("second, launched", "single")),
        (("outer 0.7", "!" + _DOUBT), ("first", "outer")),
        ((_DOUBT, "!inner 0.3"), ("second, launched", "inner")),
    ],
)
def test_launches_of_a_second_process_that_cannot_queue_its_calls_do_not_replace_a_better_time(ends, scored):
    assert _Scripted(*ends).timed() == scored


def test_on_a_cpu_nobody_else_is_asked():
    timer = _Scripted("outer", "inner")
    timer._kind = "cpu"
    assert timer.timed() == ("first", "outer")


def test_what_is_wrong_in_the_second_process_is_wrong():
    with pytest.raises(CandidateFailed) as raised:
        _Scripted("outer", Status.WRONG_VALUES).timed()
    assert raised.value.status is Status.WRONG_VALUES


def test_waiting_for_the_references_memory_is_not_the_candidates_time():
    class Enough(Exception):
        pass

    def lay_out() -> Any:
        time.sleep(0.05)
        return SimpleNamespace(restore_queue=begin_to_time)

    def begin_to_time() -> None:
        raise Enough

    extended: list[float] = []
    timer: Any = object.__new__(CandidateTimer)
    timer.baselines = SimpleNamespace(lay_out_beside_candidate=lay_out)
    with pytest.raises(Enough):
        timer._measure(SimpleNamespace(worker=SimpleNamespace(extend=extended.append)))
    assert len(extended) == 1
    assert extended[0] >= 0.05
