"""Judges elsewhere: one result whatever happens on the way, and nothing left behind."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks
from kernelwright.evaluator import (
    Cancelled,
    CancelToken,
    ConfigError,
    Evaluation,
    EvaluatorError,
    MachineError,
    ProblemError,
    Stage,
    Status,
    problem_from_source,
)
from tests.agent.evaluation.elsewhere import request, site, wait_for
from tests.agent.service.standin import PROBLEM, Running, StandIn, source


def test_a_result_comes_with_its_stages_and_its_place_in_the_queue(
    tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    judge = StandIn()
    stages: list[Stage] = []
    places: list[int | None] = []
    with Running(tmp_path, judge) as running, site(running) as judges:
        assert (judges.at_once, judges.builds_plainly) == (2, None)
        first = aside.submit(judges.evaluate, request(source("GATE")), EvaluationHooks())
        wait_for(lambda: judge.begun)
        hooks = EvaluationHooks(on_stage=stages.append, on_queue=places.append)
        second = aside.submit(judges.evaluate, request(source(number=1), trials=3), hooks)
        wait_for(lambda: places)
        judge.gate.set()
        assert (first.result(60).status, second.result(60).status) == (Status.PASSED, Status.PASSED)
        assert second.result().config.trials == 3
    assert places[0] == 0
    assert set(stages) <= {Stage.VERIFY}


def test_what_was_submitted_before_is_not_judged_again_and_another_result_once(tmp_path: Path) -> None:
    judge = Dated()
    with Running(tmp_path, judge) as running:
        for _ in range(2):
            with site(running) as judges:
                first = judges.evaluate(request(source()), EvaluationHooks())
        assert len(judge.begun) == 1
        for _ in range(2):
            with site(running) as judges:
                # Whoever was killed meanwhile asks for the same once more.
                second = judges.evaluate(request(source(), PROBLEM, first), EvaluationHooks())
                assert second.evaluated_at > first.evaluated_at
        assert len(judge.begun) == 2


class Dated(StandIn):
    """Judges at a time of its own."""

    def __call__(self, *arguments: Any, **named: Any) -> Evaluation:
        found = super().__call__(*arguments, **named)
        return found.model_copy(update={"evaluated_at": f"2026-01-01T00:00:0{len(self.begun)}+00:00"})


def test_neither_judging_elsewhere_nor_its_answers_need_torch(tmp_path: Path) -> None:
    script = f"""
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("no torch here")
sys.meta_path.insert(0, NoTorch())
from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest
from kernelwright.agent.evaluation.remote_site import RemoteSite
from kernelwright.evaluator import Candidate, EvaluationConfig, problem_from_source
problem = problem_from_source({PROBLEM.source!r}, {PROBLEM.id!r})
with RemoteSite({{sys.argv[1]: None}}, EvaluationConfig(), ["cpp"]) as judges:
    candidate = Candidate(source={source()!r}, backend="cpp")
    asked = EvaluationRequest(problem, candidate, EvaluationConfig())
    print(judges.evaluate(asked, EvaluationHooks()).status)
assert "torch" not in sys.modules and "fastapi" not in sys.modules
"""
    with Running(tmp_path, StandIn()) as running:
        done = subprocess.run(
            [sys.executable, "-c", script, running.url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.stdout.strip(), done.stderr) == ("PASSED", "")


def test_failures_are_raised_as_on_this_machine(tmp_path: Path) -> None:
    strange = problem_from_source(PROBLEM.source + "# mine\n", "mine")
    with Running(tmp_path / "a", StandIn(), allows_sources=False) as running, site(running) as judges:
        with pytest.raises(MachineError, match=f"{running.url}: no compiler here"):
            judges.evaluate(request(source("MACHINE")), EvaluationHooks())
        with pytest.raises(EvaluatorError, match="a bug"):
            judges.evaluate(request(source("CRASH")), EvaluationHooks())
        with pytest.raises(ConfigError, match="no such"):
            judges.evaluate(request(source(), shapes="no such"), EvaluationHooks())
        with pytest.raises(ProblemError, match="--allow-problem-sources"):
            judges.evaluate(request(source(), strange), EvaluationHooks())
        # The same text under another name is the same problem.
        named = PROBLEM.model_copy(update={"id": "another/name"})
        assert judges.evaluate(request(source(), named), EvaluationHooks()).problem == "another/name"
    with Running(tmp_path / "b", StandIn()) as running, site(running) as judges:
        assert judges.evaluate(request(source(), strange), EvaluationHooks()).problem_sha == strange.sha


def test_a_stopped_command_withdraws_what_is_under_way(tmp_path: Path, aside: ThreadPoolExecutor) -> None:
    judge = StandIn()
    with Running(tmp_path, judge) as running:
        with site(running) as judges:
            waiting = [
                aside.submit(judges.evaluate, request(source("GATE", number=number)), EvaluationHooks())
                for number in range(3)
            ]
            wait_for(lambda: running.desk.queued == 2)
            stop = CancelToken()
            stopped = aside.submit(
                judges.evaluate, request(source("GATE", number=9)), EvaluationHooks(stop=stop)
            )
            wait_for(lambda: running.desk.queued == 3)
            stop.set()
            with pytest.raises(Cancelled):
                stopped.result(30)
            wait_for(lambda: running.desk.queued == 2)
        for one in waiting:
            with pytest.raises(Cancelled):
                one.result(30)
        wait_for(lambda: (running.desk.queued, running.desk.running) == (0, 0))
    assert judge.ended == []


def test_who_waits_in_a_queue_may_give_up(tmp_path: Path, aside: ThreadPoolExecutor) -> None:
    def give_up(ahead: int | None) -> None:
        raise LookupError(f"{ahead} ahead")

    judge = StandIn()
    with Running(tmp_path, judge, places=1) as running, site(running) as judges:
        first = aside.submit(judges.evaluate, request(source("GATE")), EvaluationHooks())
        wait_for(lambda: judge.begun)
        with pytest.raises(LookupError, match="0 ahead"):
            judges.evaluate(request(source("GATE", number=1)), EvaluationHooks(on_queue=give_up))
        assert running.desk.queued == 0
        second = aside.submit(judges.evaluate, request(source(number=2)), EvaluationHooks())
        wait_for(lambda: running.desk.queued)
        # The queue is full.
        with pytest.raises(LookupError, match="None ahead"):
            judges.evaluate(request(source(number=3)), EvaluationHooks(on_queue=give_up))
        judge.gate.set()
        assert {first.result(30).status, second.result(30).status} == {Status.PASSED}


def test_another_client_that_cancels_the_same_content_costs_nothing(
    tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    judge = StandIn()
    with Running(tmp_path, judge) as running, site(running) as judges:
        ours = aside.submit(judges.evaluate, request(source("GATE")), EvaluationHooks())
        wait_for(lambda: judge.begun)
        with site(running) as others:
            theirs = aside.submit(others.evaluate, request(source("GATE")), EvaluationHooks())
            wait_for(lambda: sum(one._held.total() for one in others._services))
        with pytest.raises(Cancelled):
            theirs.result(30)
        judge.gate.set()
        assert ours.result(30).status is Status.PASSED
