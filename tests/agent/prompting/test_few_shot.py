"""Which kept kernels are shown for a problem: of like problems, most alike first, never its own unasked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.prompting.few_shot import Known, Traits, likeness, nearest, traits, usable
from kernelwright.agent.setup.problem_lookup import installed_problems
from kernelwright.agent.workspace import Provenance, Workspace
from kernelwright.evaluator import (
    EvaluationConfig,
    Math,
    Problem,
    ProblemSignature,
    TensorFacts,
    read_problem,
)


def problem(name: str) -> Problem:
    (path,) = installed_problems().rglob(f"{name}.py")
    return read_problem(path)


def described(one: Problem, *shape: int) -> Traits:
    facts = TensorFacts(name="x", dtype="float32", shape=shape)
    return traits(one, ProblemSignature(problem=one.id, problem_sha=one.sha, inputs=(facts,)))


@pytest.fixture
def known(make: Any, tmp_path: Path) -> Any:
    """Makes a kept kernel of one of our problems."""

    def keep(name: str, speedup: float, *shape: int, **changes: Any) -> Known:
        of = problem(name)
        source = make.code(f"{name} {speedup}")
        evaluation = make.evaluation(speedup=speedup, problem=of, source=source, **changes)
        kernel = Workspace(tmp_path).keep(source, evaluation, Provenance())
        return Known(kernel, of, described(of, *shape))

    return keep


def test_operators_are_read_from_the_source_and_plumbing_is_not() -> None:
    assert traits(problem("07_swiglu_mlp"), None).operators >= {"matmul", "silu", "mul"}
    assert traits(problem("01_square_matmul"), None).operators == {"matmul"}
    assert traits(problem("09_softmax"), None).operators == {"softmax"}


def test_like_problems_are_nearer() -> None:
    square = described(problem("01_square_matmul"), 4096, 4096)
    odd = described(problem("05_odd_size_matmul"), 2053, 3079)
    fused = described(problem("01_gemm_bias_relu"), 2048, 4096)
    softmax = described(problem("09_softmax"), 16384, 6000)
    assert likeness(square, square) == 1.0
    assert 1.0 > likeness(square, odd) > likeness(square, fused) > likeness(square, softmax) == 0.0
    assert likeness(square, fused) == likeness(fused, square)
    assert likeness(square, replace(odd, shape=(64, 64))) < likeness(square, odd)


def test_the_fastest_kernel_of_the_nearest_problems_is_shown(known: Any) -> None:
    asked = problem("05_odd_size_matmul")
    mine = described(asked, 2053, 3079)
    kernels = [
        known("01_square_matmul", 1.5, 4096, 4096),
        known("01_square_matmul", 2.5, 4096, 4096),
        known("01_gemm_bias_relu", 9.0, 2048, 4096),
        known("09_softmax", 9.0, 16384, 6000),
        known("05_odd_size_matmul", 9.0, 2053, 3079),
    ]
    found = nearest(asked, mine, kernels, 5)
    assert [(kernel.record.problem, kernel.score.speedup) for kernel in found] == [
        ("level1/01_square_matmul", 2.5),
        ("level2/01_gemm_bias_relu", 9.0),
    ]
    assert nearest(asked, mine, kernels, 1) == found[:1]
    assert nearest(asked, mine, list(reversed(kernels)), 5) == found
    own = nearest(asked, mine, kernels, 1, own=True)
    assert [kernel.record.problem for kernel in own] == ["level1/05_odd_size_matmul"]


def test_the_same_source_under_another_name_is_the_problem_itself(known: Any) -> None:
    asked = problem("01_square_matmul")
    renamed = Problem(id="mine/elsewhere", source=f"# copied\n{asked.source}")
    assert nearest(renamed, described(renamed, 64, 64), [known("01_square_matmul", 2.0, 64, 64)], 3) == []


def test_only_own_and_timed_work_of_the_same_precision_is_shown(known: Any) -> None:
    assert usable(known("09_softmax", 2.0, 8).kernel, EvaluationConfig())
    assert not usable(known("09_softmax", 2.0, 8).kernel, EvaluationConfig(math=Math.TF32))
    assert not usable(known("13_row_mean", 2.0, 8, track="library").kernel, EvaluationConfig())
