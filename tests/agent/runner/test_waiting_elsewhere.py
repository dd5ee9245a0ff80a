"""A run whose evaluations wait elsewhere: their place is told, and a stop withdraws them."""

from __future__ import annotations

import signal
from typing import Any

from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest
from kernelwright.agent.records.attempt_log import RunEnd
from kernelwright.agent.runner import events as seen
from kernelwright.agent.strategies.sample import Sample
from kernelwright.evaluator import Evaluation


def test_the_place_in_a_queue_elsewhere_is_told_once_for_each_change(
    bench: Any, scripted: Any, says: Any
) -> None:
    def elsewhere(request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        for ahead in (2, 2, 1, None, 0):
            hooks.on_queue(ahead)
        found = bench.evaluate(request.problem, request.candidate, request.config, hooks.on_stage)
        assert isinstance(found, Evaluation)
        return found

    provider = scripted(lambda request: says("PASSED 2"))
    summary = bench.run(bench.plan(1, strategy=Sample(samples=1)), provider, evaluate=elsewhere)
    assert summary.evaluated == 1
    assert [event.ahead for event in bench.of(seen.EvaluationWaits)] == [2, 1, None, 0]


def test_a_stop_withdraws_what_waits_and_a_resume_evaluates_it(bench: Any, scripted: Any, says: Any) -> None:
    def for_ever(request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        while True:
            hooks.on_queue(5)

    def stop(event: seen.Event) -> None:
        if isinstance(event, seen.EvaluationWaits):
            signal.raise_signal(signal.SIGINT)

    plan = bench.plan(1, strategy=Sample(samples=1))
    provider = scripted(lambda request: says("PASSED 2"))
    summary = bench.run(plan, provider, evaluate=for_ever, on_event=stop)
    assert (summary.end, summary.evaluated, summary.evaluator_failures) == (RunEnd.INTERRUPTED, 0, 0)
    assert bench.go_on(scripted(lambda request: says("PASSED 2"))).evaluated == 1


def test_a_second_measurement_is_asked_for_besides_the_first(bench: Any, scripted: Any, says: Any) -> None:
    asked: list[EvaluationRequest] = []

    def elsewhere(request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        asked.append(request)
        found = bench.evaluate(request.problem, request.candidate, request.config, hooks.on_stage)
        assert isinstance(found, Evaluation)
        return found

    provider = scripted(lambda request: says(f"PASSED {2 + request.sample}"))
    bench.run(bench.plan(1, confirm=True), provider, evaluate=elsewhere)
    assert [len(request.besides) for request in asked] == [0, 0, 1]
    assert asked[2].besides[0].speedup == 3.0
