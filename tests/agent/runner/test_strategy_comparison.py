"""Several strategies in one run: each gets the same budget, and a resume goes on with what is left of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kernelwright.agent.records.attempt_log import RunEnd
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import ProviderError
from kernelwright.agent.strategies.evolve import Evolve
from kernelwright.agent.strategies.refine import Refine
from kernelwright.agent.strategies.sample import Sample

COMPARED: dict[str, Any] = {
    "strategy": Sample(samples=6),
    "others": (Refine(samples=2, turns=3), Evolve(population=3, generations=2)),
}


def spent(bench: Any) -> dict[tuple[str, str], int]:
    archive = bench.workspace.archive()
    return dict(Counter((one.key.problem, one.key.strategy) for one in archive.attempts()))


def test_every_strategy_gets_the_same_budget_for_every_problem(bench: Any, scripted: Any, says: Any) -> None:
    provider = scripted(lambda request: says(f"PASSED 1.{request.sample} {request.turn}"))
    plan = bench.plan(2, **COMPARED, problem_budget=Budget(attempts=5))
    summary = bench.run(plan, provider, completions=9)
    assert summary.end is RunEnd.COMPLETE
    assert spent(bench) == {
        (f"level1/0{number}_p", name): 5 for number in range(2) for name in ("sample", "refine", "evolve")
    }


def test_equal_tokens_are_overshot_by_less_than_one_attempt(bench: Any, scripted: Any, says: Any) -> None:
    provider = scripted(lambda request: says(f"PASSED 1.{request.sample} {request.turn}"))
    plan = bench.plan(1, **COMPARED, problem_budget=Budget(tokens=350))
    assert bench.run(plan, provider, completions=9).end is RunEnd.COMPLETE
    assert set(spent(bench).values()) == {4}


def test_an_experiment_is_resumed_like_any_run(bench: Any, scripted: Any, says: Any) -> None:
    answered: Counter[Any] = Counter()
    failures = iter([True, False, False] * 4)

    def script(request: Any) -> Any:
        if next(failures, False):
            return ProviderError("busy")
        answered[request.problem, request.sample, request.turn, request.messages] += 1
        return says(f"PASSED 1.{request.sample} {request.turn}")

    plan = bench.plan(2, **COMPARED)
    first = bench.run(plan, scripted(script))
    assert (first.end, first.attempts < 36) == (RunEnd.INCOMPLETE, True)
    again = bench.go_on(scripted(script))
    assert (again.end, again.attempts, answered.total()) == (RunEnd.COMPLETE, 36, 36)
    assert set(spent(bench).values()) == {6}
    assert bench.go_on(scripted(script)).attempts == 36
    assert answered.total() == 36


def test_a_strategy_can_be_compared_with_others_only(bench: Any) -> None:
    with pytest.raises(ValueError, match="each may be named once"):
        bench.begin(bench.plan(1, strategy=Sample(samples=2), others=(Sample(samples=3),)))
