"""A device given to one at a time: who runs meanwhile, and who is to blame where memory is short."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelwright.evaluator.ipc import driver_requests
from kernelwright.evaluator.referee.open_problem import OpenProblem
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Stage, Status
from tests.evaluator.referee.in_process import Opener, opened
from tests.evaluator.referee.test_evaluate_candidate import PROBLEM, RIGHT, _ByRole

__all__ = ["opened"]


def _running_while_given_away(asked: list[Any]) -> list[str]:
    """Each request that gave the device away, or waited for it, while a process with a candidate ran."""
    running: dict[int, str] = {}
    stopped: dict[int, str] = {}
    found = []
    for number, request in enumerate(asked, 1):
        match request:
            case driver_requests.Start(role="candidate" | "timed"):
                running[number] = request.role
            case driver_requests.Thaw() if request.id in stopped:
                running[request.id] = stopped.pop(request.id)
            case driver_requests.Freeze() | driver_requests.Kill() if request.id in running:
                stopped[request.id] = running.pop(request.id)
            case driver_requests.Release() | driver_requests.Hold(exclusive=True) if running:
                found.append(f"{request.op}: {running}")
    return found


@pytest.mark.parametrize("on_gpu", [False, True])
def test_no_candidate_runs_while_the_device_is_given_away_to_who_times(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, on_gpu: bool
) -> None:
    """Who waits to have the device alone is not paused while others have it."""
    monkeypatch.setattr(OpenProblem, "on_gpu", on_gpu)
    monkeypatch.setitem(policy.RECHECK_IN_SECOND_PROCESS, "cpu", True)
    referee, contestants = opened(PROBLEM, counters=False), _ByRole()
    assert referee.evaluate(RIGHT, contestants).status is Status.PASSED
    assert contestants.made >= 2, "it was verified in one process and timed in another"
    assert _running_while_given_away(referee.driver.asked) == []


@pytest.mark.parametrize(
    "shortage", [torch.OutOfMemoryError("full"), CandidateFailed(Status.OUT_OF_MEMORY, "full")]
)
def test_a_candidate_that_leaves_no_memory_for_the_reference_has_run_out_of_it(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, shortage: Exception
) -> None:
    """As on a GPU, where the reference gets its memory after the candidate."""
    monkeypatch.setattr(OpenProblem, "on_gpu", True)
    referee = opened(PROBLEM)
    assert referee.evaluate(RIGHT).status is Status.PASSED
    session = referee.problem.timer._session
    really_lay_out = session.lay_out

    def lay_out(worker: WorkerProcess) -> CallBuffers:
        if worker.role == "baseline":
            raise shortage
        return really_lay_out(worker)

    monkeypatch.setattr(session, "lay_out", lay_out)
    outcome = referee.evaluate(RIGHT)
    assert (outcome.status, outcome.stage) == (Status.OUT_OF_MEMORY, Stage.TIME)
    assert "no room on the device" in outcome.detail
    killed = [ask.id for ask in referee.driver.asked if isinstance(ask, driver_requests.Kill)]
    assert referee.problem.timer.baselines.measure().worker.id not in killed
