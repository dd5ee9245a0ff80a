"""The policy of a score: equal for equal terms, different for any other, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.records.score import Score
from kernelwright.agent.records.score_policy import ScorePolicy, exclusion_reason, policy_of, slower
from kernelwright.evaluator import Dtype, EvaluationConfig, Limits, Math, Passes, SandboxTier, Sanitize

if TYPE_CHECKING:
    from tests.agent.conftest import Make


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (EvaluationConfig(baselines=("eager",)), "against eager, not against compile and eager"),
        (EvaluationConfig(trials=3), "3 trials, not 7 trials"),
        (EvaluationConfig(sanitize=Sanitize.ON), "with sanitizers, not without sanitizers"),
        (EvaluationConfig(shapes="small"), "shapes small, not own shapes"),
        (EvaluationConfig(dtype=Dtype.BF16), "cast to bf16, not own types"),
        (EvaluationConfig(math=Math.TF32), "tf32 math, not fp32 math"),
        (EvaluationConfig(passes=Passes.FORWARD_BACKWARD), "with gradients, not forward"),
        (EvaluationConfig(secret_seed=1), "known seed, not secret seed"),
        (
            EvaluationConfig(measure=False),
            "no baselines known, not against compile and eager",
        ),
    ],
)
def test_another_setting_is_another_policy_and_says_so(
    make: Make, config: EvaluationConfig, words: str
) -> None:
    usual, other = policy_of(make.evaluation()), policy_of(make.evaluation(config=config))
    assert other.id != usual.id
    assert list(other.differences(usual).values()) == [words]


def test_another_machine_is_another_policy(make: Make) -> None:
    usual = make.evaluation()
    where = make.environment()
    for change in ({"device_name": "B"}, {"torch": "2.0"}, {"threads": 9}):
        moved = usual.model_copy(update={"environment": where.model_copy(update=change)})
        assert policy_of(moved) != policy_of(usual)
    unprotected = where.sandbox.model_copy(update={"tier": SandboxTier.NONE.value})
    moved = usual.model_copy(update={"environment": where.model_copy(update={"sandbox": unprotected})})
    assert policy_of(moved).differences(policy_of(usual)) == {"sandbox": "no sandbox, not bubblewrap sandbox"}


def test_the_number_of_a_gpu_and_limits_are_no_policy(make: Make) -> None:
    usual = make.evaluation(config=EvaluationConfig(baselines=("eager", "compile")))
    same = EvaluationConfig(
        baselines=("compile", "eager"), limits=Limits(build_s=9.0), device="cuda:3", counters=True
    )
    assert policy_of(make.evaluation(config=same)) == policy_of(usual)


def test_a_score_holds_its_policy_and_its_policy_alone_compares(make: Make) -> None:
    score = Score.of(make.evaluation(speedup=2.0))
    assert score.policy == policy_of(make.evaluation(speedup=3.0))
    assert type(score.policy) is ScorePolicy and score.id == score.policy.id
    assert policy_of(make.evaluation(scoring_rules=2)).differences(score.policy) == {
        "rules": "rules 2, not rules not recorded"
    }
    assert str(score.policy) == (
        "Test CPU · fp32 math · against compile and eager · 7 trials · without sanitizers · "
        "bubblewrap sandbox · torch 2.13.0 · 2 threads · evaluator unknown · rules not recorded"
    )


def test_what_is_surely_slower_says_so_and_a_tie_does_not(make: Make) -> None:
    assert slower(make.evaluation(measurement=make.measurement(0.9, 0.8, 0.99))).startswith(
        "slower than eager: 0.90×"
    )
    assert not slower(make.evaluation(measurement=make.measurement(0.97, 0.9, 1.01)))
    assert not slower(make.evaluation(speedup=None))
    assert not exclusion_reason(make.evaluation(speedup=None)) and not exclusion_reason(make.evaluation())
