"""Settings of an evaluation: those a score brings along, and those of the operator."""

from __future__ import annotations

from kernelwright.evaluator import EvaluationConfig, Limits


def test_a_score_decides_what_is_measured_and_nothing_that_guards_the_machine() -> None:
    score = EvaluationConfig(
        shapes="small",
        passes="forward_backward",
        dtype="bf16",
        math="bf16",
        baselines=("eager",),
        trials=3,
        measure=False,
        sanitize="off",
        device="cuda:3",
        target_ms=1e9,
        max_turns=10**9,
        counters=True,
        sandbox="none",
        limits=Limits(memory_gib=1e6, total_s=1e9),
        threads=512,
        secret_seed=1,
    )
    operator = EvaluationConfig(sandbox="confined", limits=Limits(total_s=60))
    found = operator.on_terms_of(score)
    terms = {"shapes", "passes", "dtype", "math", "baselines", "trials", "measure", "sanitize"}
    for name in EvaluationConfig.model_fields:
        assert getattr(found, name) == getattr(score if name in terms else operator, name), name
