"""That every stage is called, and what it decides counts: one candidate each that meets one defence alone."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernelwright.evaluator.contestant.output_places import committed
from kernelwright.evaluator.ipc import contestant_messages as wire
from kernelwright.evaluator.ipc import driver_requests
from kernelwright.evaluator.ipc.messages import Done
from kernelwright.evaluator.ipc.referee_messages import CandidateEvaluated
from kernelwright.evaluator.referee.correctness.verification import Verifier
from kernelwright.evaluator.referee.outcome import Outcome
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.candidate_timer import CandidateTimer
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.schema.config import Passes, Sanitize
from kernelwright.evaluator.schema.evaluation import (
    Measurement,
    Plausibility,
    Sanitization,
    Stage,
    Status,
    Verification,
)
from tests.evaluator.referee.in_process import UNTIMED, InProcessDriver, Opener, ThreadContestant, opened

__all__ = ["opened"]

PROBLEM = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64))
    def forward(self, x):
        return torch.relu(x * self.weight)
def get_inputs():
    return [torch.randn(64, 64)]
def get_init_inputs():
    return []
"""
RIGHT = PROBLEM.replace("class Model(", "class ModelNew(")


def _with_body(body: str) -> str:
    return RIGHT.replace("return torch.relu(x * self.weight)", body)


def _verification(outcome: Outcome) -> Verification:
    found = outcome.records[Verification]
    assert isinstance(found, Verification)
    return found


def test_a_right_candidate_goes_through_every_stage(opened: Opener) -> None:
    referee = opened(PROBLEM)
    outcome = referee.evaluate(RIGHT)
    assert (outcome.status, outcome.stage, outcome.detail) == (Status.PASSED, Stage.DECIDE, "")
    assert {Verification, Measurement, Plausibility, Sanitization} <= outcome.records.keys()
    entered = [ask.stage for ask in referee.driver.asked if isinstance(ask, driver_requests.EnterStage)]
    assert entered == ["load", "verify", "time", "attribute", "decide"]
    assert (_verification(outcome).trials, _verification(outcome).bitwise_repeatable) == (13, True)
    assert (_verification(outcome).weights, _verification(outcome).parameters) == ("seed", "seed")
    assert outcome.to_json()["measurement"]["against"] == "eager"


def test_a_time_below_what_the_memory_needs_is_implausible_and_no_speedup(opened: Opener) -> None:
    referee = opened(PROBLEM)
    referee.problem.roofline._certain_bytes = 1 << 50
    outcome = referee.evaluate(RIGHT)
    assert (outcome.status, outcome.stage) == (Status.IMPLAUSIBLE, Stage.DECIDE)
    assert "less than the" in outcome.detail
    answer = CandidateEvaluated(**outcome.to_json())
    assert answer.measurement is not None
    assert answer.speedup is None


def test_weights_of_the_first_model_are_wrong_in_the_second(opened: Opener) -> None:
    keeps = "KEPT.append(self.weight)\n        return torch.relu(x * KEPT[0])"
    outcome = opened(PROBLEM, UNTIMED).evaluate(f"KEPT = []\n{_with_body(keeps)}")
    assert (outcome.status, outcome.stage) == (Status.WRONG_VALUES, Stage.VERIFY)
    assert "larger_weights" in outcome.detail
    assert _verification(outcome).mismatch is not None


def test_a_failure_that_has_another_try_is_no_pass(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(verifier: Verifier, trials: int) -> Verification:
        raise CandidateFailed(Status.RUNTIME_ERROR, "it died", edge="inside")

    monkeypatch.setattr(Verifier, "verify", fault)
    referee = opened(PROBLEM, UNTIMED)
    outcome = referee.evaluate(RIGHT)
    assert (outcome.status, outcome.stage) == (Status.RUNTIME_ERROR, Stage.VERIFY)
    assert referee.driver.count(driver_requests.Start) == 2


class _KeepsItsOutputs(ThreadContestant):
    """Does not let the caller write to the outputs of one layout."""

    layout = "verify"

    def _overwrite(self, request: wire.Overwrite) -> Done:
        return Done() if request.layout == self.layout else super()._overwrite(request)


class _KeepsTimedOutputs(_KeepsItsOutputs):
    layout = "time"


@pytest.mark.parametrize(
    ("contestant", "stage"), [(_KeepsItsOutputs, Stage.VERIFY), (_KeepsTimedOutputs, Stage.TIME)]
)
def test_outputs_are_overwritten_in_verified_and_in_timed_calls(
    opened: Opener, contestant: type[ThreadContestant], stage: Stage
) -> None:
    outcome = opened(PROBLEM).evaluate(RIGHT, contestant)
    assert (outcome.status, outcome.stage) == (Status.WRONG_VALUES, stage)
    assert "an output is not memory of its own" in outcome.detail


def _inputs_seen(referee, monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """Inputs of the verified calls of one candidate."""
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(threading, "seen", seen, raising=False)
    outcome = referee.evaluate("import threading\n" + _with_body(
        "threading.seen.append(x.clone())\n        return torch.relu(x * self.weight)"
    ))  # fmt: skip
    assert outcome.status is Status.PASSED
    return seen


def _common(one: list[torch.Tensor], other: list[torch.Tensor]) -> int:
    return sum(any(torch.equal(a, b) for b in other) for a in one)


def test_no_two_candidates_see_the_same_trials(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    referee = opened(PROBLEM, UNTIMED)
    first, second = (_inputs_seen(referee, monkeypatch) for _ in range(2))
    assert 0 < _common(second, first) < len(second)


def test_no_two_referees_draw_the_same_trials_unless_told_to(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (_inputs_seen(opened(PROBLEM, UNTIMED), monkeypatch) for _ in range(2))
    assert _common(one, other) == 0
    one, other = (_inputs_seen(opened(PROBLEM, UNTIMED, secret_seed=3), monkeypatch) for _ in range(2))
    assert _common(one, other) == len(one)


class _ForgesItsClock(ThreadContestant):
    """Takes fifty milliseconds a call, and claims one."""

    def _run(self, request: wire.Run) -> wire.Ran:
        if request.layout != "verify":
            time.sleep(0.05 * request.count)
        return wire.Ran(inner_ms=1.0 * request.count, places=super()._run(request).places)


def test_a_clock_that_is_far_behind_ours_in_every_turn_is_tampered_with(opened: Opener) -> None:
    outcome = opened(PROBLEM).evaluate(RIGHT, _ForgesItsClock)
    assert (outcome.status, outcome.stage) == (Status.TAMPERED, Stage.TIME)
    assert "where our clock saw" in outcome.detail
    assert Measurement not in outcome.records


class _SkipsWhenTimed(ThreadContestant):
    """Returns the answers of a batch's first call for all of them, once it is timed."""

    def _run(self, request: wire.Run) -> wire.Ran:
        ran = super()._run(request)
        if request.count <= 12:
            return ran
        self._returned = [self._returned[0].clone() for _ in self._returned]
        tree = self._layouts[request.layout].output_tree
        return wire.Ran(inner_ms=ran.inner_ms, places=committed(self._returned, tree))


def test_timed_outputs_are_compared(opened: Opener) -> None:
    outcome = opened(PROBLEM).evaluate(RIGHT, _SkipsWhenTimed)
    assert (outcome.status, outcome.stage) == (Status.WRONG_VALUES, Stage.TIME)
    assert "right when verified, wrong when timed" in outcome.detail


SIZES = PROBLEM.replace(
    "class Model(", 'N = 64\nSHAPES = {"wide": {"N": 256}, "odd": {"N": 63}}\nclass Model('
).replace("torch.randn(64, 64)", "torch.randn(N, 64)")


@pytest.mark.parametrize(
    ("line", "status", "specialized"),
    [
        ("", Status.PASSED, False),
        ("x = x if len(x) == 64 else x + 1", Status.WRONG_VALUES, True),
        ("assert len(x) == 64", Status.RUNTIME_ERROR, True),
        ("x = x if len(x) == 64 else torch.zeros(64, 64)", Status.WRONG_SHAPE, True),
    ],
)
def test_other_sizes_are_recorded_and_decide_nothing(
    opened: Opener, line: str, status: Status, specialized: bool
) -> None:
    outcome = opened(SIZES, UNTIMED).evaluate(
        _with_body(f"{line}\n        return torch.relu(x * self.weight)")
    )
    assert outcome.status is Status.PASSED
    assert _verification(outcome).other_sizes == {"odd": status, "wide": status}
    assert _verification(outcome).shape_specialized is specialized


def test_a_problem_of_one_size_has_no_other(opened: Opener) -> None:
    fixed = PROBLEM.replace("torch.relu(x * self.weight)", "(x * self.weight).view(4, 1024).relu()")
    outcome = opened(fixed, UNTIMED).evaluate(fixed.replace("class Model(", "class ModelNew("))
    assert outcome.status is Status.PASSED
    assert (_verification(outcome).other_sizes, _verification(outcome).shape_specialized) == ({}, None)


def test_wrong_gradients_are_named_as_gradients(opened: Opener) -> None:
    referee = opened(PROBLEM, UNTIMED, passes=Passes.FORWARD_BACKWARD)
    assert referee.evaluate(RIGHT).status is Status.PASSED
    outcome = referee.evaluate(_with_body("return torch.relu(x * self.weight.detach()) + 0 * self.weight"))
    assert outcome.status is Status.WRONG_VALUES
    assert outcome.detail.startswith("the gradient of")


def test_a_model_that_cannot_be_seeded_is_given_the_references_weights(opened: Opener) -> None:
    other_order = RIGHT.replace("self.weight =", "torch.randn(3)\n        self.weight =")
    verification = _verification(opened(PROBLEM, UNTIMED).evaluate(other_order))
    assert (verification.weights, verification.parameters) == ("state_dict", "state_dict")


class _ClaimsLittle(ThreadContestant):
    """Claims half of what it took."""

    def _run(self, request: wire.Run) -> wire.Ran:
        time.sleep(0.01 * request.count)
        return wire.Ran(inner_ms=5.0 * request.count, places=super()._run(request).places)


class _ByRole:
    """One contestant after another: the first is doubted, the second is honest."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, *arguments: Any) -> ThreadContestant:
        self.made += 1
        return (_ClaimsLittle if self.made == 1 else ThreadContestant)(*arguments)


@pytest.mark.parametrize("first", ["self.weight =", "torch.randn(3)\n        self.weight ="])
def test_a_second_process_holds_the_verified_model(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """As on a GPU; its timed outputs are right, however its weights were given."""
    monkeypatch.setitem(policy.RECHECK_IN_SECOND_PROCESS, "cpu", True)
    referee, contestants = opened(PROBLEM), _ByRole()
    referee.driver.facts[""] = {}  # the spread of the reference's processes is measured, too
    outcome = referee.evaluate(RIGHT.replace("self.weight =", first), contestants)
    assert (outcome.status, contestants.made) == (Status.PASSED, 2)
    assert referee.driver.count(driver_requests.Start) == policy.COMPARED_PROCESSES["cpu"] + 2


class _Remarking(CandidateTimer):
    """A timer with a remark about each candidate that it times."""

    def __init__(self, timer: CandidateTimer) -> None:
        vars(self).update(vars(timer))

    def time(self, candidate: CallBuffers, second_process: Callable[[], CallBuffers]) -> Measurement:
        found = super().time(candidate, second_process)
        assert self._last is not None
        self._last = replace(self._last, notes=("timed twice",))
        return found


def test_a_candidate_that_is_not_timed_has_no_remark_of_an_earlier_ones_timing(opened: Opener) -> None:
    referee = opened(PROBLEM)
    referee.problem.timer = _Remarking(referee.problem.timer)
    assert referee.evaluate(RIGHT).notes == ("timed twice",)
    assert referee.evaluate(_with_body("return x")).notes == ()


class _Exacting(CandidateTimer):
    """A timer that finds a timed call wrong, and notes who had the device then."""

    def __init__(self, timer: CandidateTimer, driver: InProcessDriver) -> None:
        vars(self).update(vars(timer))
        self._driver, self.last_hold = driver, driver_requests.Hold(exclusive=True, anew=False)

    def compare_with_exact(self) -> None:
        if self._kept:
            *_, self.last_hold = (ask for ask in self._driver.asked if isinstance(ask, driver_requests.Hold))
            raise CandidateFailed(Status.WRONG_VALUES, "it errs")


def test_a_timed_call_is_wrong_though_its_device_was_given_back(opened: Opener) -> None:
    referee = opened(PROBLEM)
    referee.problem.timer = timer = _Exacting(referee.problem.timer, referee.driver)
    outcome = referee.evaluate(RIGHT)
    assert (outcome.status, outcome.stage, outcome.detail) == (Status.WRONG_VALUES, Stage.TIME, "it errs")
    assert not timer.last_hold.exclusive, "others may time meanwhile"
    assert (Measurement in outcome.records, timer._kept) == (False, [])


class _Rechecking(CandidateTimer):
    """A timer that finds a score worth a second look."""

    def __init__(self, timer: CandidateTimer, driver: InProcessDriver) -> None:
        vars(self).update(vars(timer))
        self._driver, self.held = driver, False

    def needs_recheck(self, found: Measurement) -> bool:
        return True

    def recheck(self, found: Measurement) -> Measurement:
        holds = [
            ask
            for ask in self._driver.asked
            if isinstance(ask, driver_requests.Hold | driver_requests.Release)
        ]
        self.held = isinstance(holds[-1], driver_requests.Hold) and holds[-1].exclusive
        return found.model_copy(update={"contended": True})


def test_a_baseline_is_measured_again_with_the_device_alone(opened: Opener) -> None:
    referee = opened(PROBLEM)
    referee.problem.timer = timer = _Rechecking(referee.problem.timer, referee.driver)
    outcome = referee.evaluate(RIGHT)
    assert timer.held
    found = outcome.records[Measurement]
    assert isinstance(found, Measurement) and found.contended


def test_a_wrong_row_is_steady_and_no_race_is_looked_for(opened: Opener) -> None:
    referee = opened(PROBLEM, UNTIMED, sanitize=Sanitize.ON)
    body = "self.out = getattr(self, 'out', torch.empty(64, 64))\n        "
    body += "return torch.mul(x, self.weight, out=self.out).relu_()"
    assert (
        referee.evaluate(_with_body(body) + "# cupy: what it compiles itself").status is Status.WRONG_VALUES
    )
    assert referee.driver.count(driver_requests.FindSanitizers) == 0
    body = "self.n = getattr(self, 'n', 0) + 1\n        return torch.relu(x * self.weight) + (self.n == 4)"
    assert (
        referee.evaluate(_with_body(body) + "# cupy: what it compiles itself").status
        is Status.NONDETERMINISTIC
    )
    assert referee.driver.count(driver_requests.FindSanitizers) == 1


def test_a_reference_whose_constants_must_stay_keeps_them(opened: Opener) -> None:
    """Off its zeros the reference is infinite."""
    source = PROBLEM.replace("torch.randn(64)", "torch.zeros(64)").replace(
        "torch.relu(x * self.weight)", "torch.where(self.weight == 0, x, float('inf'))"
    )
    referee = opened(source, UNTIMED)
    assert referee.problem.pool.draws[0].vary is False
    assert referee.problem.pool.draws[0].trials[0].expected.output.leaves[0].isfinite().all()


def test_no_call_comes_on_inputs_that_an_earlier_call_saw(opened: Opener) -> None:
    """Not even one that is not scored: it would know that nobody looks."""
    body = "SEEN.append(x.clone())\n        return torch.relu(x * self.weight)"
    referee = opened(PROBLEM)
    source = f"import builtins\nSEEN = builtins.__dict__.setdefault('_seen', [])\n{_with_body(body)}"
    try:
        assert referee.evaluate(source).status is Status.PASSED
        # The last few are the profiler's, once all is timed.
        timed = {str(x.tolist()) for x in vars(builtins)["_seen"][-72:-8]}
    finally:
        vars(builtins).pop("_seen", None)
    assert len(timed) == 64


def test_a_score_says_that_other_programs_wanted_the_cores(opened: Opener) -> None:
    cores = os.sched_getaffinity(0)
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        os.sched_setaffinity(0, {min(cores)})
        measured = opened(PROBLEM).evaluate(RIGHT).records[Measurement]
    finally:
        os.sched_setaffinity(0, cores)
        for each in spinning:
            each.kill()
            each.wait()
    assert measured.contended
    assert measured.candidate.competing > 0.25
