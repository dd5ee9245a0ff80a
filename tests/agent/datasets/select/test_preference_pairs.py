"""Pairs: whatever the attempts, the chosen one is right beyond doubt and surely better."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.agent.datasets.select.preference_pairs import is_surely_faster, pairs_of
from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.agent.records.score import is_cheat
from kernelwright.agent.records.score_policy import ScorePolicy
from kernelwright.evaluator import Math, Status

INTERVALS = st.none() | st.tuples(st.floats(0.1, 5), st.floats(0, 2)).map(lambda pair: (pair[0], sum(pair)))


@st.composite
def facts(draw: st.DrawFn, ordinal: int = 0) -> AttemptView:
    status = draw(st.none() | st.sampled_from([Status.PASSED, Status.PASSED, Status.PASSED, *Status]))
    interval = draw(INTERVALS) if status is Status.PASSED else None
    return AttemptView(
        attempt=str(ordinal),
        run="run",
        problem="problem",
        problem_sha=draw(st.sampled_from(["one", "two"])),
        backend="cpp",
        model="model",
        strategy="sample",
        sample=ordinal,
        turn=0,
        status=status,
        is_cheat=status is not None and is_cheat(status, ("patching",)),
        policy=ScorePolicy(
            hardware=draw(st.sampled_from([None, "A", "B"])),
            math=draw(st.sampled_from([Math.FP32, Math.TF32])),
            baselines=draw(st.sampled_from([("eager",), ("compile", "eager")])),
        ),
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        prompt=draw(st.sampled_from(["p", "q"])),
        candidate=str(ordinal),
        sanitized=draw(st.booleans()),
    )


@st.composite
def groups(draw: st.DrawFn) -> list[AttemptView]:
    return [draw(facts(number)) for number in range(draw(st.integers(0, 12)))]


@settings(deadline=None, max_examples=150)
@given(groups())
def test_only_the_better_is_chosen_and_only_for_a_reason(attempts: list[AttemptView]) -> None:
    fit = [one for one in attempts if one.sanitized or not one.passed]
    pairs = list(pairs_of(fit, lambda one: one.prompt))
    for pair in pairs:
        chosen, rejected = pair.chosen, pair.rejected
        assert chosen.passed and chosen.sanitized and not chosen.is_cheat
        assert rejected.status is not None
        assert (chosen.prompt, chosen.problem_sha, chosen.policy.terms) == (
            rejected.prompt,
            rejected.problem_sha,
            rejected.policy.terms,
        )
        if pair.reason == "passed":
            assert not rejected.passed
            assert rejected.policy.hardware in (None, chosen.policy.hardware)
        else:
            assert rejected.passed and chosen.policy == rejected.policy
            assert chosen.policy.hardware is not None
            assert chosen.low is not None and rejected.high is not None and chosen.low > rejected.high
    assert len({(pair.rejected.attempt, pair.reason) for pair in pairs}) == len(pairs)


@settings(deadline=None, max_examples=150)
@given(groups())
def test_what_has_a_surely_faster_example_is_rejected_once(attempts: list[AttemptView]) -> None:
    pairs = pairs_of(attempts, lambda one: one.prompt)
    rejected = {pair.rejected.attempt for pair in pairs if pair.reason == "faster"}
    passed = [one for one in attempts if one.passed]
    assert rejected == {
        slow.attempt
        for slow in passed
        if any(
            is_surely_faster(fast, slow)
            and (fast.prompt, fast.problem_sha) == (slow.prompt, slow.problem_sha)
            for fast in passed
        )
    }
