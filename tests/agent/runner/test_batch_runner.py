"""A run from its plan to its summary: everything recorded, nothing scored that is not the model's."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.archive import resume_run
from kernelwright.agent.records.attempt_log import (
    AssignmentDone,
    EvaluatorFailed,
    KernelKept,
    ProblemSkipped,
    ProviderFailed,
    RunEnd,
    RunFinished,
)
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import CompletionRequest, Message, ProviderError, Sampling
from kernelwright.agent.runner import ModelChoice
from kernelwright.agent.runner import events as seen
from kernelwright.agent.runner.events import event_line
from kernelwright.agent.runner.requester import _bound_tokens
from kernelwright.agent.strategies.refine import Refine
from kernelwright.agent.strategies.sample import Sample
from kernelwright.evaluator import (
    ConfigError,
    EvaluationConfig,
    EvaluatorError,
    MachineError,
    ProblemError,
    Status,
)


def lines_of(bench: Any, kind: type) -> list[Any]:
    archive = bench.workspace.archive()
    return [line for run in archive.runs() for line in archive.lines(run) if isinstance(line, kind)]


def failing(bench: Any, error: Exception, name: str = "") -> None:
    """Let the evaluator fail on problems whose names end so."""

    def evaluate(problem: Any, *others: Any) -> Any:
        if problem.id.endswith(name):
            raise error
        return type(bench).evaluate(problem, *others)

    bench.evaluate = evaluate


def test_every_sample_of_every_problem_and_model_is_asked_judged_and_kept(bench, scripted, says) -> None:
    models = (ModelChoice(name="model-a", license="MIT"), ModelChoice(name="model-b", origin="a recording"))
    provider = scripted(lambda request: says(f"PASSED 2.{request.sample} {request.problem} {request.model}"))
    summary = bench.run(
        bench.plan(models=models), provider, providers={"model-a": provider, "model-b": provider}
    )
    assert (summary.end, summary.attempts, summary.evaluated, summary.passed) == (RunEnd.COMPLETE, 8, 8, 8)
    assert (summary.exit_code, summary.unevaluated, summary.reason) == (0, 0, "")
    assert summary.best == {"level1/00_p": 2.1, "level1/01_p": 2.1}
    assert provider.is_closed
    kernels = list(bench.workspace.kernels())
    assert len(kernels) == summary.kept == len(lines_of(bench, KernelKept)) == 8
    assert {kernel.record.provenance.license for kernel in kernels} == {"MIT", None}
    assert {kernel.record.provenance.origin for kernel in kernels} == {"", "a recording"}
    assert len(lines_of(bench, AssignmentDone)) == 4
    assert [line.end for line in lines_of(bench, RunFinished)] == [RunEnd.COMPLETE]


def test_replies_without_code_get_a_status_without_the_evaluator(bench, scripted) -> None:
    provider = scripted(
        lambda request: "I would rather not." if request.sample else "```python\nimport torch\nclass "
    )
    summary = bench.run(bench.plan(1), provider)
    assert bench.judged == []
    assert {attempt.status for attempt in bench.attempts().values()} <= {Status.NO_CODE, Status.TRUNCATED}
    assert (summary.evaluated, summary.passed, summary.exit_code) == (2, 0, 1)


def test_an_identical_candidate_is_judged_once_and_that_is_noted(bench, scripted, says) -> None:
    summary = bench.run(
        bench.plan(2, strategy=Sample(samples=5)), scripted(lambda request: says("PASSED 3")), evaluators=3
    )
    assert len(bench.judged) == 2, "the same source for another problem is another candidate"
    assert summary.evaluated == 10
    assert sum(attempt.evaluation.reused_from is not None for attempt in bench.attempts().values()) == 8
    assert summary.kept == 2
    assert sum(event.reused for event in bench.of(seen.Judged)) == 8


def test_what_was_judged_in_an_earlier_turn_is_not_judged_again(bench, scripted, says) -> None:
    provider = scripted(lambda request: says("PASSED 3"))
    bench.run(bench.plan(1, strategy=Sample(samples=5)), provider, completions=1, evaluators=1, backlog=1)
    assert len(bench.judged) == 1
    assert sum(attempt.evaluation.reused_from is not None for attempt in bench.attempts().values()) == 4


def test_a_provider_failure_is_noted_not_scored_and_asked_again_on_resume(bench, scripted, says) -> None:
    def flaky(request):
        return ProviderError("overloaded") if request.problem.endswith("00_p") else says("PASSED 2")

    summary = bench.run(bench.plan(), scripted(flaky))
    assert (summary.end, summary.attempts, summary.provider_failures) == (RunEnd.INCOMPLETE, 2, 2)
    assert "2 questions got no reply" in summary.reason
    assert len(lines_of(bench, ProviderFailed)) == 2
    healthy = scripted(lambda request: says("PASSED 2"))
    again = bench.go_on(healthy)
    assert (again.end, again.attempts) == (RunEnd.COMPLETE, 4)
    assert {request.problem for request in healthy.requests} == {"level1/00_p"}


def test_no_reply_at_all_is_no_failure_of_the_model(bench, scripted) -> None:
    summary = bench.run(bench.plan(1), scripted(lambda request: ProviderError("unreachable")))
    assert (summary.end, summary.evaluated, summary.exit_code) == (RunEnd.INCOMPLETE, 0, 3)


def test_a_provider_that_always_fails_is_not_asked_for_ever(bench, scripted) -> None:
    provider = scripted(lambda request: ProviderError("bad key"))
    summary = bench.run(bench.plan(4, strategy=Sample(samples=50)), provider, completions=2)
    assert summary.end is RunEnd.BROKEN
    assert "10 times in a row: bad key" in summary.reason
    assert len(provider.requests) <= 12


def test_a_model_refused_for_good_is_not_asked_again(bench, scripted, says) -> None:
    good = scripted(lambda request: says("PASSED 2"))
    bad = scripted(lambda request: ProviderError("no such model", fatal=True))
    models = (ModelChoice(name="bad"), ModelChoice(name="good"))
    plan = bench.plan(2, strategy=Sample(samples=5), models=models)
    summary = bench.run(plan, good, providers={"bad": bad, "good": good}, completions=1)
    assert (summary.end, summary.attempts, len(bad.requests)) == (RunEnd.INCOMPLETE, 10, 1)
    assert [event.for_good for event in bench.of(seen.ProviderTrouble)] == [True]
    alone = bench.run(bench.plan(2), bad, completions=1)
    assert (alone.end, alone.reason, len(bad.requests)) == (RunEnd.BROKEN, "no such model", 2)


def test_one_model_that_always_fails_does_not_stop_the_other(bench, scripted, says) -> None:
    good, bad = (
        scripted(lambda request: says("PASSED 2")),
        scripted(lambda request: ProviderError("no such model")),
    )
    plan = bench.plan(
        2, strategy=Sample(samples=20), models=(ModelChoice(name="bad"), ModelChoice(name="good"))
    )
    summary = bench.run(plan, good, providers={"bad": bad, "good": good})
    assert (summary.end, summary.attempts) == (RunEnd.INCOMPLETE, 40)
    assert len(bad.requests) < 40


def test_an_evaluator_failure_leaves_the_reply_for_a_resume(bench, scripted, says) -> None:
    failed = []

    def once(problem, candidate, config, on_stage):
        if not failed:
            failed.append(1)
            raise MachineError("the GPU fell off the bus")
        return type(bench).evaluate(problem, candidate, config, on_stage)

    bench.evaluate = once
    provider = scripted(lambda request: says(f"PASSED 2 {request.sample}"))
    summary = bench.run(bench.plan(1), provider)
    assert (summary.end, summary.unevaluated, summary.evaluator_failures) == (RunEnd.INCOMPLETE, 1, 1)
    assert [line.message for line in lines_of(bench, EvaluatorFailed)] == ["the GPU fell off the bus"]
    again = bench.go_on(provider)
    assert (again.end, again.unevaluated) == (RunEnd.COMPLETE, 0)
    assert len(provider.requests) == 2, "no reply is paid for twice"


def test_an_evaluator_that_keeps_failing_stops_the_run(bench, scripted, says) -> None:
    failing(bench, RuntimeError("no compiler"))
    provider = scripted(lambda request: says(f"PASSED 2 {request.sample}"))
    summary = bench.run(bench.plan(4, strategy=Sample(samples=10)), provider, completions=2, backlog=2)
    assert (summary.end, summary.exit_code, summary.evaluated) == (RunEnd.BROKEN, 3, 0)
    assert "3 times in a row: RuntimeError: no compiler" in summary.reason
    assert summary.attempts < 40
    bench.evaluate = type(bench).evaluate
    assert bench.go_on(provider).evaluated == 40
    assert len(provider.requests) == 40


def test_a_problem_the_evaluator_always_fails_on_does_not_stop_the_others(bench, scripted, says) -> None:
    failing(bench, EvaluatorError("the referee died"), "00_p")
    provider = scripted(lambda request: says(f"PASSED 2 {request.sample}"))
    summary = bench.run(
        bench.plan(2, strategy=Sample(samples=20)), provider, completions=1, backlog=1, evaluators=1
    )
    assert summary.end is RunEnd.INCOMPLETE
    assert (summary.evaluated, summary.skipped) == (20, {})
    assert summary.evaluator_failures in (3, 4), "one more may have been waiting for its turn"
    assert len([request for request in provider.requests if request.problem.endswith("00_p")]) < 20
    bench.evaluate = type(bench).evaluate
    assert bench.go_on(provider).end is RunEnd.COMPLETE


def test_a_machine_that_fails_stops_a_run_of_one_problem(bench, scripted, says) -> None:
    failing(bench, MachineError("no compiler"))
    provider = scripted(lambda request: says(f"PASSED 2 {request.sample}"))
    summary = bench.run(bench.plan(1, strategy=Sample(samples=20)), provider, completions=1, backlog=1)
    assert (summary.end, summary.exit_code, summary.evaluated) == (RunEnd.BROKEN, 3, 0)


def test_a_bad_problem_is_skipped_with_a_reason_and_the_others_go_on(bench, scripted, says) -> None:
    failing(bench, ProblemError("get_inputs raises ValueError"), "00_p")
    summary = bench.run(bench.plan(3), scripted(lambda request: says(f"PASSED 2 {request.sample}")))
    assert summary.skipped == {"level1/00_p": "get_inputs raises ValueError"}
    assert (summary.passed, summary.end) == (4, RunEnd.COMPLETE)
    assert [line.problem for line in lines_of(bench, ProblemSkipped)] == ["level1/00_p"]
    assert [event.problem for event in bench.of(seen.Skipped)] == ["level1/00_p"]


def test_a_shape_name_that_no_problem_has_costs_no_question(bench, scripted, says) -> None:
    provider = scripted(lambda request: says("PASSED 2"))
    summary = bench.run(bench.plan(config=EvaluationConfig(shapes="tiny")), provider)
    assert provider.requests == []
    assert summary.exit_code == 2
    assert "no shapes named 'tiny'" in summary.skipped["level1/00_p"]


def test_a_prompt_that_cannot_be_made_skips_its_problem(bench, scripted, says, plain_prompts) -> None:
    class Broken(plain_prompts):
        def opening(self, problem, backend, exemplars=()):
            if problem.id.endswith("00_p"):
                raise ConfigError("no template for it")
            return super().opening(problem, backend, exemplars)

    summary = bench.run(bench.plan(), scripted(lambda request: says("PASSED 2")), prompts=Broken())
    assert summary.skipped == {"level1/00_p": "no template for it"}
    assert (summary.passed, summary.end) == (2, RunEnd.COMPLETE)


def test_asking_is_bounded_and_does_not_run_ahead_of_judging(bench, scripted, says) -> None:
    gate = threading.Event()

    def slow(problem, candidate, config, on_stage):
        gate.wait(20)
        return type(bench).evaluate(problem, candidate, config, on_stage)

    bench.evaluate = slow
    provider = scripted(lambda request: says(f"PASSED 2 {request.problem} {request.sample}"))
    plan = bench.plan(4, strategy=Sample(samples=10))
    with bench.begin(plan) as log:
        batch = bench.batch(log, provider, completions=3, backlog=4, evaluators=2)
        ended: list[Any] = []
        thread = threading.Thread(target=lambda: ended.append(batch.run()))
        thread.start()
        time.sleep(0.5)
        assert provider.answered <= 3 + 4 + 2
        gate.set()
        thread.join(30)
    assert ended[0].evaluated == 40
    assert provider.most_at_once <= 3
    assert len(bench.threads) == 2


@pytest.mark.parametrize("concurrency", [1, 7])
def test_a_budget_of_attempts_is_exact(bench, scripted, says, concurrency: int) -> None:
    provider = scripted(lambda request: says(f"PASSED 2 {request.problem} {request.sample}"), delay_s=0.001)
    plan = bench.plan(4, strategy=Sample(samples=10), budget=Budget(attempts=13))
    summary = bench.run(plan, provider, completions=concurrency)
    assert (summary.end, summary.attempts, summary.evaluated) == (RunEnd.BUDGET, 13, 13)
    assert summary.reason == "budget of 13 attempts reached"
    assert len(bench.of(seen.BudgetReached)) == 1


@pytest.mark.parametrize("budget", [Budget(tokens=1250), Budget(cost_usd="0.125")])
def test_a_budget_of_tokens_or_money_is_overshot_by_one_attempt_at_most(
    bench, scripted, says, budget
) -> None:
    provider = scripted(lambda request: says(f"PASSED 2 {request.problem} {request.sample}"), delay_s=0.001)
    summary = bench.run(bench.plan(4, strategy=Sample(samples=10), budget=budget), provider, completions=9)
    assert summary.end is RunEnd.BUDGET
    assert summary.attempts == 13
    assert summary.cost_usd == sum(
        type(summary.cost_usd)(str(attempt.completion.cost_usd)) for attempt in bench.attempts().values()
    )


def test_an_attempt_may_cost_its_prompt_and_all_the_tokens_it_may_write() -> None:
    def bound(content: str, max_tokens: int | None) -> int | None:
        message = Message(role="user", content=content)
        sampling = Sampling(max_tokens=max_tokens)
        return _bound_tokens(
            CompletionRequest(
                model="m", messages=(message, message), problem="p", backend="cpp", sampling=sampling
            )
        )

    assert bound("word " * 1000, None) is None
    most = bound("word " * 1000, 50)
    assert most is not None and most >= 2050, "two messages of a thousand words, and the reply"
    assert bound("word", 50) < 100


def test_a_budget_counts_what_earlier_processes_spent(bench, scripted, says) -> None:
    provider = scripted(lambda request: says(f"PASSED 2 {request.problem} {request.sample}"))
    bench.run(bench.plan(4, strategy=Sample(samples=10), budget=Budget(attempts=13)), provider)
    summary = bench.go_on(provider)
    assert (summary.end, len(provider.requests)) == (RunEnd.BUDGET, 13)


def test_a_spent_budget_can_be_raised_and_stays_so(bench, scripted, says) -> None:
    provider = scripted(lambda request: says(f"PASSED 2 {request.problem} {request.sample}"))
    plan = bench.plan(4, strategy=Sample(samples=10), budget=Budget(attempts=13, tokens=10**9))
    bench.run(plan, provider)
    with resume_run(bench.workspace.archive(), bounds=Budget(attempts=15)) as log:
        raised = bench.batch(log, provider).run()
    assert (raised.end, raised.attempts) == (RunEnd.BUDGET, 15)
    assert raised.budget == Budget(attempts=15, tokens=10**9)
    again = bench.go_on(provider)
    assert (again.end, again.attempts, again.budget) == (RunEnd.BUDGET, 15, raised.budget)
    closed = json.loads(event_line(bench.of(seen.RunClosed)[-1]))["summary"]
    assert closed["budget"] == {"attempts": 15, "tokens": 10**9, "cost_usd": None, "seconds": None}


def test_a_problem_budget_bounds_each_and_leaves_nothing_to_resume(bench, scripted, says) -> None:
    provider = scripted(lambda request: says(f"WRONG_VALUES {request.problem} {request.turn}"))
    plan = bench.plan(3, strategy=Refine(turns=10), problem_budget=Budget(tokens=300))
    summary = bench.run(plan, provider)
    assert (summary.end, summary.attempts) == (RunEnd.COMPLETE, 9)
    assert bench.go_on(provider).attempts == 9


def test_a_budget_of_time_stops_asking(bench, scripted, says) -> None:
    provider = scripted(lambda request: says(f"PASSED 2 {request.problem} {request.sample}"), delay_s=0.05)
    plan = bench.plan(4, strategy=Sample(samples=1000), budget=Budget(seconds=0.3))
    summary = bench.run(plan, provider, completions=2)
    assert summary.end is RunEnd.BUDGET
    assert summary.attempts == summary.evaluated == len(provider.requests) < 4000


def test_events_tell_the_story_in_order_and_as_json(bench, scripted, says) -> None:
    bench.run(bench.plan(1, strategy=Sample(samples=1)), scripted(lambda request: says("PASSED 2")))
    names = [type(event).__name__ for event in bench.events]
    assert names == [
        "RunOpened",
        "AssignmentStarted",
        "Asking",
        "Replied",
        "Judging",
        "StageEntered",
        "Judged",
        "Kept",
        "AssignmentFinished",
        "RunClosed",
    ]
    told = [json.loads(event_line(event)) for event in bench.events]
    assert [line["event"] for line in told] == names
    assert told[6]["of"]["problem"] == "level1/00_p"
    assert told[-1]["summary"]["end"] == "complete"
    assert told[0]["judges"]


def test_a_run_that_leaves_judging_to_others_says_so(bench, scripted, says) -> None:
    summary = bench.run(bench.plan(1), scripted(lambda request: says("PASSED 2")), evaluate=None)
    (opened,) = bench.of(seen.RunOpened)
    assert (opened.judges, summary.end, summary.unevaluated) == (False, RunEnd.ASKED, 2)


def test_a_seed_differs_between_samples_and_a_problem_named_twice_is_worked_on_once(
    bench, scripted, says
) -> None:
    provider = scripted(lambda request: says(f"PASSED 2 {request.sample}"))
    plan = bench.plan(1, models=(ModelChoice(name="model-a", sampling=Sampling(seed=7)),))
    plan = plan.model_copy(update={"problems": plan.problems * 2})
    assert bench.run(plan, provider).attempts == 2
    assert [request.sampling.seed for request in provider.requests] == [7, 8]
    assert {attempt.completion.sampling.seed for attempt in bench.attempts().values()} == {7, 8}


def test_nothing_heavy_is_imported() -> None:
    program = (
        "import sys;from kernelwright.agent import runner, leaderboard, workspace;"
        "heavy = ('torch', 'rich', 'openai', 'numpy', 'jinja2', 'typer');"
        "print([name for name in heavy if name in sys.modules])"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, check=True, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"


def test_a_model_without_a_provider_is_said_before_anything_is_asked(bench, scripted) -> None:
    with bench.begin(bench.plan()) as log, pytest.raises(ValueError, match="no provider for model-a"):
        bench.batch(log, scripted(str), providers={}).run()
