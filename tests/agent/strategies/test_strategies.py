"""What each strategy says next, seen from the provider's side of a real batch."""

from __future__ import annotations

from typing import Any

import pytest

from kernelwright.agent.records.attempt_log import AttemptKey
from kernelwright.agent.runner import Plan
from kernelwright.agent.strategies import AnyStrategy, Exemplar, Imported, find_strategy
from kernelwright.agent.strategies.evolve import Evolve, _relative_speed
from kernelwright.agent.strategies.refine import Refine, spoken, worth
from kernelwright.agent.strategies.sample import Sample
from kernelwright.evaluator import Status, plugins


def said(request: Any) -> list[str]:
    return [f"{message.role[0]}: {message.content}" for message in request.messages]


def scripted_turns(scripted: Any, says: Any, *verdicts: str | None) -> Any:
    """Replies by turn; None is a reply without code."""
    texts = [f"no code in turn {turn}." if v is None else says(v) for turn, v in enumerate(verdicts)]
    return scripted(lambda request: texts[request.turn])


def test_samples_are_independent_and_ask_the_same(bench: Any, scripted: Any, says: Any) -> None:
    provider = scripted(lambda request: says(f"PASSED 2 {request.sample}"))
    bench.run(bench.plan(1, strategy=Sample(samples=3)), provider)
    assert [request.sample for request in provider.requests] == [0, 1, 2]
    assert len({request.messages for request in provider.requests}) == 1


def test_a_conversation_repairs_step_by_step(bench: Any, scripted: Any, says: Any) -> None:
    provider = scripted_turns(scripted, says, "COMPILE_ERROR", "WRONG_VALUES", "PASSED 1.5", "PASSED 2.5")
    summary = bench.run(bench.plan(1, strategy=Refine(turns=4)), provider)
    assert summary.best == {"level1/00_p": 2.5}
    last = said(provider.requests[-1])
    assert last[:2] == ["s: write cpp", "u: make level1/00_p fast"]
    assert [line[:40] for line in last[3::2]] == [
        "u: that was COMPILE_ERROR None",
        "u: that was WRONG_VALUES None",
        "u: that was PASSED 1.5",
    ]
    assert all("```python" in line for line in last[2::2])


@pytest.mark.parametrize("worse", ["WRONG_VALUES", "PASSED 1.1", "COMPILE_ERROR", "TAMPERED"])
def test_a_regression_is_rolled_back_to_the_best(bench: Any, scripted: Any, says: Any, worse: str) -> None:
    provider = scripted_turns(scripted, says, "PASSED 2.0", worse, "PASSED 3.0", "PASSED 2.9", "PASSED 4.0")
    bench.run(bench.plan(1, strategy=Refine(turns=5)), provider)
    after = [said(request) for request in provider.requests]
    speed = worse.partition(" ")[2] or "None"
    assert len(after[2]) == 4, "the regression is not in the conversation"
    assert after[2][3] == f"u: that was PASSED 2.0; then came {worse.partition(' ')[0]} {speed}"
    assert "PASSED 2.0" in after[2][2]
    assert len(after[3]) == 6
    assert after[4][:4] == after[3][:4]
    assert after[4][5] == "u: that was PASSED 3.0; then came PASSED 2.9"


def test_failures_before_the_first_right_kernel_are_not_rolled_back(
    bench: Any, scripted: Any, says: Any
) -> None:
    provider = scripted_turns(scripted, says, "WRONG_VALUES", "COMPILE_ERROR", "PASSED 2")
    bench.run(bench.plan(1, strategy=Refine(turns=3)), provider)
    assert said(provider.requests[2])[-1] == "u: that was COMPILE_ERROR None"
    assert len(provider.requests[2].messages) == 6


def test_a_reply_without_code_is_not_shown_again(bench: Any, scripted: Any, says: Any) -> None:
    provider = scripted_turns(scripted, says, "WRONG_VALUES", None, None, "PASSED 2")
    bench.run(bench.plan(1, strategy=Refine(turns=4)), provider)
    second, third, fourth = (said(request) for request in provider.requests[1:])
    assert third == fourth
    assert third[:-1] == second[:-1]
    assert third[-1] == second[-1] + "\n\nthat was NO_CODE None"
    assert not any("no code in turn" in line for line in third)
    roles = [message.role for message in provider.requests[3].messages]
    assert roles == ["system", "user", "assistant", "user"]


def test_a_conversation_ends_when_it_is_fast_enough(bench: Any, scripted: Any, says: Any) -> None:
    verdicts = ("PASSED 0.5", "PASSED 1.6", "PASSED 9.0")
    for enough, turns in ((0, 1), (1.5, 2), (None, 3)):
        provider = scripted_turns(scripted, says, *verdicts)
        bench.run(bench.plan(1, strategy=Refine(turns=3, enough=enough)), provider)
        assert len(provider.requests) == turns


def test_thoughts_are_not_sent_back() -> None:
    assert spoken("<think>hm</think>\n\nHere.") == "Here."
    assert spoken("no thoughts") == "no thoughts"
    assert spoken("<think>only</think>") == "<think>only</think>"
    assert spoken("broken \ud800") == "broken ?"


def test_a_population_breeds_from_fast_and_different_kernels(bench: Any, scripted: Any, says: Any) -> None:
    provider = scripted(lambda request: says(f"PASSED {1 + request.turn}.{request.sample} of {request.turn}"))
    plan = bench.plan(1, strategy=Evolve(population=4, generations=3, parents=2))
    summary = bench.run(plan, provider)
    assert (summary.attempts, summary.best) == (12, {"level1/00_p": 3.3})
    first = [request for request in provider.requests if request.turn == 0]
    later = [request for request in provider.requests if request.turn == 2]
    assert not any("see" in said(request)[-1] for request in first)
    assert all(said(request)[-1].count("\nsee ") == 2 for request in later)
    bred = [attempt for attempt in bench.attempts().values() if attempt.key.turn == 2]
    known = {attempt.id: attempt for attempt in bench.attempts().values()}
    assert all(len(attempt.completion.parents) == 2 for attempt in bred)
    assert all(known[parent].key.turn < 2 for attempt in bred for parent in attempt.completion.parents)
    speeds = [known[parent].speedup for attempt in bred for parent in attempt.completion.parents]
    assert (
        sum(speeds) / len(speeds) > sum(known[name].speedup for name in known if known[name].key.turn < 2) / 8
    )


def test_a_population_without_a_right_kernel_repairs_its_best_failures(
    bench: Any, scripted: Any, says: Any
) -> None:
    verdicts = {0: "COMPILE_ERROR", 1: "WRONG_VALUES", 2: None}

    def script(request: Any) -> str:
        verdict = verdicts[request.sample] if request.turn == 0 else f"PASSED 2 {request.sample}"
        return says(f"{verdict} {request.sample}") if verdict else "nothing."

    provider = scripted(script)
    bench.run(bench.plan(1, strategy=Evolve(population=3, generations=2)), provider)
    repairs = [said(request)[-1] for request in provider.requests if request.turn == 1]
    assert repairs == [
        "u: that was WRONG_VALUES None",
        "u: that was COMPILE_ERROR None",
        "u: that was WRONG_VALUES None",
    ]


def test_a_duplicate_but_for_comments_is_not_judged_again(bench: Any, scripted: Any, says: Any) -> None:
    def script(request: Any) -> str:
        return says("PASSED 2").replace("class", f"# try {request.turn}.{request.sample}\nclass", 1)

    summary = bench.run(
        bench.plan(1, strategy=Evolve(population=3, generations=2)), scripted(script), evaluators=3
    )
    assert len(bench.judged) == 1
    assert (summary.evaluated, summary.passed, summary.kept) == (6, 6, 1)
    reused = [attempt.evaluation.reused_from for attempt in bench.attempts().values()]
    assert len([name for name in reused if name]) == 5 and len(set(reused)) == 2


def test_equal_seeds_breed_equally_and_other_seeds_do_not(
    bench: Any, scripted: Any, says: Any, tmp_path: Any
) -> None:
    def parents(folder: str, seed: int) -> dict[Any, Any]:
        place = type(bench)(tmp_path / folder)
        provider = scripted(
            lambda request: says(f"PASSED {1 + request.turn}.{request.sample} of {request.turn}")
        )
        place.run(place.plan(1, strategy=Evolve(population=5, generations=3), seed=seed), provider)
        return {(request.sample, request.turn): said(request) for request in provider.requests}

    assert parents("a", 1) == parents("b", 1)
    assert parents("a2", 1) != parents("c", 2)


def test_imported_replies_are_judged_and_nobody_is_asked(
    bench: Any, make: Any, says: Any, scripted: Any
) -> None:
    plan: Plan = bench.plan(2, strategy=Imported(samples=3))
    with bench.begin(plan) as log:
        for sample, verdict in ((0, "PASSED 2"), (2, "WRONG_VALUES")):
            key = AttemptKey(
                run=log.run,
                problem="level1/01_p",
                backend="cpp",
                model="model-a",
                strategy="imported",
                sample=sample,
            )
            log.record_completion(key, make.answer(key, says(verdict)))
        summary = bench.batch(log, scripted(str), providers={}).run()
    assert (summary.end, summary.attempts, summary.evaluated) == ("complete", 2, 2)
    assert {attempt.status for attempt in bench.attempts().values()} == {Status.PASSED, Status.WRONG_VALUES}


def test_every_strategy_is_known_by_its_name() -> None:
    from pydantic import TypeAdapter

    for name in plugins("strategies"):
        strategy: AnyStrategy = TypeAdapter(AnyStrategy).validate_python({"name": name})
        assert strategy == find_strategy(name).model_validate({})
        assert TypeAdapter(AnyStrategy).validate_json(strategy.model_dump_json()) == strategy


@pytest.mark.parametrize(
    "strategy", [Sample(samples=2), Refine(turns=3), Evolve(population=2, generations=2)]
)
def test_kernels_of_like_problems_are_shown_and_that_is_recorded(
    bench: Any, make: Any, scripted: Any, says: Any, strategy: AnyStrategy
) -> None:
    taught = Exemplar(code="a kernel of another problem", evaluation=make.evaluation(), kernel="abc123")
    provider = scripted(lambda request: says(f"PASSED 2.{request.turn} {request.sample}"))
    plan = bench.plan(2, strategy=strategy, exemplars={"cpp:level1/00_p": ("abc123",)})
    bench.run(plan, provider, exemplars={"cpp:level1/00_p": (taught,)})
    for key, attempt in bench.attempts().items():
        sent = bench.workspace.archive().messages(attempt.completion)
        is_shown = any("a kernel of another problem" in message.content for message in sent)
        assert attempt.completion.exemplars == (("abc123",) if is_shown else ())
        bred = strategy.name == "evolve" and key[2] > 0
        assert is_shown == (key[0] == "level1/00_p" and not bred)


def test_a_contended_speedup_starts_nothing_and_is_enough_for_nothing(make: Any, tmp_path: Any) -> None:
    busy = make.measurement(9.0).model_copy(update={"contended": True})
    with make.log(tmp_path) as log:
        found = [
            log.record_evaluation(
                log.record_completion(key, make.answer(key, make.reply(mark))),
                make.evaluation(speedup=speedup, source=make.code(mark), measurement=measurement),
            )
            for mark, speedup, measurement in (
                ("fit", 1.2, make.measurement(1.2)),
                ("busy", 9.0, busy),
            )
            for key in [make.key(log.run, sample=len(mark))]
        ]
        assert log.index.best() == {"level1/01_add": 1.2}
    assert [attempt.speedup for attempt in found] == [1.2, None]
    assert max(found, key=worth) is found[0]
    assert _relative_speed(found)[found[0].id] > _relative_speed(found)[found[1].id]
