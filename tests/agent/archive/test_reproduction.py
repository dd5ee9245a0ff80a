"""Two scores of one kernel: reproduced, different, or not comparable."""

from __future__ import annotations

import pytest

from kernelwright.agent.archive.reproduction import ReproductionOutcome, compare
from kernelwright.evaluator import Evaluation


def score(
    *,
    status: str = "PASSED",
    device: str = "NVIDIA H200",
    interval: tuple[float, float] = (1.4, 1.6),
    against: str = "compile",
    noise: float | None = None,
    dtype: str = "as_is",
    problem_sha: str = "p",
    baseline_ms: float = 1.0,
) -> Evaluation:
    """An evaluation with just what a comparison looks at."""
    timing = {"median_ms": 1.0, "spread_ms": 0.1, "turns": 8, "calls": 80, "outer_ms": 1.0, "clock": "outer"}
    speedup = sum(interval) / 2
    return Evaluation.model_validate(
        {
            "status": status,
            "stage": "decide",
            "detail": "" if status == "PASSED" else "12 of 64 values",
            "problem": "level1/01_x",
            "problem_sha": problem_sha,
            "candidate_sha": "c",
            "backend": "cuda",
            "config": {"dtype": dtype, "baselines": [against]},
            "speedup": speedup if status == "PASSED" else None,
            "measurement": {
                "candidate": timing,
                "baselines": {against: timing | {"median_ms": baseline_ms}},
                "speedups": {against: speedup},
                "against": against,
                "speedup": speedup,
                "interval": {"low": interval[0], "high": interval[1]},
                "noise_floor": noise,
                "calls_per_batch": 10,
                "ring_slots": 4,
            },
            "environment": {
                "device": "cuda:0",
                "device_name": device,
                "torch": "2",
                "python": "3",
                "cpu": "x",
                "threads": 2,
                "sandbox": {"tier": "bubblewrap", "limits": "rlimits", "seccomp": True, "uid": "own"},
            },
        }
    )


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        (score(), ReproductionOutcome.REPRODUCED),
        (score(interval=(1.55, 1.8)), ReproductionOutcome.REPRODUCED),
        (score(interval=(1.64, 1.8)), ReproductionOutcome.REPRODUCED),  # 2.5 % apart: another machine
        (score(interval=(1.7, 1.8)), ReproductionOutcome.DIFFERENT),
        (score(interval=(1.36, 1.39)), ReproductionOutcome.REPRODUCED),
        (score(interval=(1.0, 1.2)), ReproductionOutcome.DIFFERENT),
        (score(interval=(1.7, 1.8), noise=0.1), ReproductionOutcome.REPRODUCED),
        (score(status="WRONG_VALUES"), ReproductionOutcome.DIFFERENT),
        (score(status="WRONG_VALUES", device="Tesla T4"), ReproductionOutcome.DIFFERENT),
        (score(device="Tesla T4"), ReproductionOutcome.NOT_COMPARABLE),
        (score(dtype="bf16"), ReproductionOutcome.NOT_COMPARABLE),
        (score(against="eager"), ReproductionOutcome.NOT_COMPARABLE),
        (score(problem_sha="q"), ReproductionOutcome.NOT_COMPARABLE),
    ],
)
def test_a_new_score_is_compared_with_the_kept_one(after: Evaluation, outcome: ReproductionOutcome) -> None:
    comparison = compare("k", score(), after)
    assert comparison.outcome is outcome, comparison.why
    assert comparison.why


def test_distances_are_relative_to_the_speedup() -> None:
    then = score(interval=(23.9, 24.0))
    assert compare("k", then, score(interval=(24.6, 24.7))).outcome is ReproductionOutcome.REPRODUCED
    assert compare("k", then, score(interval=(25.0, 25.1))).outcome is ReproductionOutcome.DIFFERENT


def test_a_different_score_tells_whose_time_changed() -> None:
    why = compare("k", score(), score(interval=(1.7, 1.8), baseline_ms=1.2)).why
    assert why.endswith("the kernel 1 ms then, 1 ms now, compile 1 ms then, 1.2 ms now")


def test_a_changed_judge_is_said() -> None:
    before = score().model_copy(update={"evaluator_sha": "old"})
    same = compare("k", before, before)
    other = compare("k", before, before.model_copy(update={"evaluator_sha": "new"}))
    assert same.outcome is other.outcome is ReproductionOutcome.REPRODUCED
    assert "evaluator" not in same.why and other.why.endswith("; the evaluator has changed since")
