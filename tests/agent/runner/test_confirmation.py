"""The best of several attempts is measured again before it counts, and only a sure gain is saved."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from kernelwright.agent.leaderboard import board
from kernelwright.agent.records.attempt_log import EvaluationRecorded, RunEnd
from kernelwright.agent.runner.events import Judged, Refused
from kernelwright.agent.strategies.sample import Sample
from kernelwright.evaluator import Evaluation, EvaluationConfig, Status

if TYPE_CHECKING:
    from tests.agent.conftest import Make


class Machine:
    """Gives each candidate, named by its mark, one answer after the other; the last one lasts."""

    def __init__(self, make: Make, **answers: list[Evaluation | float | Status]) -> None:
        self.asked: list[str] = []
        self._make = make
        self._answers = answers

    def __call__(self, problem: Any, candidate: Any, config: Any, on_stage: Any) -> Evaluation:
        mark = re.findall(r"mark = '(.*)'", candidate.source)[0]
        self.asked.append(mark)
        answers = self._answers[mark]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        named = {"problem": problem, "source": candidate.source, "config": config}
        if isinstance(answer, Status):
            return self._make.evaluation(answer, None, **named)
        if isinstance(answer, Evaluation):
            return self._make.evaluation(measurement=answer.measurement, **named)
        return self._make.evaluation(speedup=answer, **named)


@pytest.fixture
def run(bench: Any, scripted: Any, make: Make) -> Any:
    """Run one problem whose replies are the machine's candidates, in their order."""

    def run(machine: Machine, *marks: str, **changes: Any) -> Any:
        bench.evaluate = machine
        provider = scripted(lambda request: make.reply(marks[request.sample]))
        plan = bench.plan(1, strategy=Sample(samples=len(marks)), **{"confirm": True, **changes})
        return bench.run(plan, provider, evaluators=1, completions=1)

    return run


def best(bench: Any) -> tuple[float, bool]:
    (entry,) = board(bench.workspace.archive().attempts()).problems
    return entry.best.speedup, entry.best.is_confirmed


def test_the_best_is_measured_again_and_the_second_time_counts(bench: Any, run: Any, make: Make) -> None:
    machine = Machine(make, a=[2.0], b=[3.0, 2.5])
    summary = run(machine, "a", "b")
    assert sorted(machine.asked) == ["a", "b", "b"]
    assert (summary.attempts, summary.evaluated, summary.best) == (2, 2, {"level1/00_p": 2.5})
    assert best(bench) == (2.5, True)
    assert [event.confirms for event in bench.of(Judged)] == [False, False, True]
    kernels = {kernel.source.split("'")[1]: kernel.score.speedup for kernel in bench.workspace.kernels()}
    assert kernels == {"a": 2.0, "b": 2.5}


def test_a_lucky_best_is_preemptible_to_one_that_stands(bench: Any, run: Any, make: Make) -> None:
    machine = Machine(make, a=[2.0, 2.1], b=[3.0, 1.5], c=[1.0])
    run(machine, "a", "b", "c")
    assert machine.asked[3:] == ["b", "a"]
    assert best(bench) == (2.1, True)


def test_one_candidate_alone_is_measured_once(bench: Any, run: Any, make: Make) -> None:
    machine = Machine(make, a=[2.0], b=[Status.WRONG_VALUES])
    run(machine, "a", "b", "a")
    assert sorted(machine.asked) == ["a", "b"]


def test_equal_candidates_share_the_second_evaluation(bench: Any, run: Any, make: Make) -> None:
    machine = Machine(make, a=[3.0, 2.0], b=[1.5])
    run(machine, "a", "b", "a")
    assert sorted(machine.asked) == ["a", "a", "b"]
    assert sorted(attempt.speedup for attempt in bench.attempts().values()) == [1.5, 2.0, 2.0]


def test_a_kernel_that_fails_the_second_time_is_not_saved_any_more(bench: Any, run: Any, make: Make) -> None:
    machine = Machine(make, a=[2.0], b=[3.0, Status.WRONG_VALUES])
    summary = run(machine, "a", "b")
    assert (summary.passed, summary.kept) == (1, 1)
    assert [kernel.source.split("'")[1] for kernel in bench.workspace.kernels()] == ["a"]
    assert bench.of(Refused)[-1].message == "evaluated again: WRONG_VALUES"


def test_a_busy_machine_confirms_nothing(bench: Any, run: Any, make: Make) -> None:
    measured = make.measurement(9.0).model_copy(update={"contended": True})
    disturbed = make.evaluation(measurement=measured)
    machine = Machine(make, a=[2.0], b=[3.0, disturbed])
    summary = run(machine, "a", "b")
    assert summary.end is RunEnd.INCOMPLETE
    assert summary.reason == "1 best attempt could not be measured again undisturbed; a resume tries again"
    assert sorted(machine.asked) == ["a", "b", "b", "b"]
    assert best(bench) == (1.0, False)


def test_a_resume_confirms_the_best_that_a_busy_machine_did_not(
    bench: Any, run: Any, scripted: Any, make: Make
) -> None:
    measured = make.measurement(9.0).model_copy(update={"contended": True})
    disturbed = make.evaluation(measurement=measured)
    run(Machine(make, a=[2.0], b=[3.0, disturbed]), "a", "b")
    bench.evaluate = Machine(make, b=[2.5])
    assert bench.go_on(scripted(lambda request: make.reply("a"))).end is RunEnd.COMPLETE
    assert best(bench) == (2.5, True)


def test_a_run_that_was_confirmed_is_not_confirmed_again(
    bench: Any, run: Any, scripted: Any, make: Make
) -> None:
    machine = Machine(make, a=[2.0], b=[3.0])
    run(machine, "a", "b")
    bench.go_on(scripted(lambda request: make.reply("a")))
    assert sorted(machine.asked) == ["a", "b", "b"]
    log = bench.workspace.archive()
    lines = [line for line in log.lines(log.find()) if isinstance(line, EvaluationRecorded)]
    assert [line.confirms for line in lines] == [False, False, True]


@pytest.mark.parametrize(("keeps", "kept"), [(False, []), (True, ["a"])])
def test_a_slower_kernel_is_saved_only_where_asked_for(
    bench: Any, run: Any, make: Make, keeps: bool, kept: list[str]
) -> None:
    run(Machine(make, a=[0.5]), "a", keep_slower=keeps)
    assert [kernel.source.split("'")[1] for kernel in bench.workspace.kernels()] == kept
    if not keeps:
        (refused,) = bench.of(Refused)
        assert refused.message == "slower than eager: 0.50× (0.49–0.51)"


def test_a_kernel_measured_on_a_busy_machine_is_shown_but_not_saved(bench: Any, run: Any, make: Make) -> None:
    disturbed = make.evaluation(measurement=make.measurement(9.0).model_copy(update={"contended": True}))
    run(Machine(make, a=[disturbed]), "a")
    assert not list(bench.workspace.kernels())
    (attempt,) = bench.attempts().values()
    assert attempt.speedup is None and best(bench) == (1.0, False)


@pytest.mark.parametrize(
    ("later", "kept"), [(1.1, [1.1]), (0.5, []), (Status.WRONG_VALUES, []), (Status.COMPILE_ERROR, [])]
)
def test_a_later_evaluation_replaces_or_withdraws_a_saved_score(
    bench: Any, run: Any, make: Make, later: float | Status, kept: list[float]
) -> None:
    other = EvaluationConfig(baselines=("eager",), trials=2)
    run(Machine(make, a=[1.4]), "a")
    run(Machine(make, a=[1.3]), "a", config=other)
    run(Machine(make, a=[later]), "a")
    (kernel,) = bench.workspace.kernels()
    assert [score.speedup for score in kernel.record.scores if score.config != other] == kept
    assert [score.speedup for score in kernel.record.scores if score.config == other] == [1.3]
    disturbed = make.evaluation(measurement=make.measurement(9.0).model_copy(update={"contended": True}))
    run(Machine(make, a=[disturbed]), "a", config=other)
    run(Machine(make, a=[Status.WRONG_VALUES]), "a", config=other)
    assert [k.score.speedup for k in bench.workspace.kernels()] == kept
